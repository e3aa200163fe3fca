// A unit that each microbatch uses several times: the gradients of its uses are added up before
// earlier microbatches' gradients are added.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::used_again {

struct NetImpl : torch::nn::Module {
  using units = Units<torch::nn::LinearImpl>;
  torch::nn::Linear again = register_module("again", torch::nn::Linear(5, 5));
  template <class Run>
  Loss loss(Run& run, const Rows& rows) {
    at::Tensor y = rows.input;
    for (int use = 0; use < 3; ++use) y = torch::tanh(run(again, y));
    return {y.square().sum(), y.numel()};
  }
};
TORCH_MODULE(Net);

template <class... Policies>
std::vector<at::Tensor> trained(Policies... policies) {
  torch::manual_seed(0);
  Trainer trainer{Net(), AdamW{.lr = 1e-2}, Accumulate<4>{}, policies...};
  for (const Rows& batch : batches(4, 8)) trainer.step(batch);
  return whole(trainer);
}
TEST_CASE("a unit that is used several times in each microbatch: one rank has the bits of none") {
  const auto expected = trained();
  const auto check = [&]<class How>(Shard<How> policy) {
    CAPTURE(ikebana::detail::type_name<Shard<How>>());
    on_groups(1, [&](const ProcessGroup& group) {
      policy.process_group = group;
      CHECK(same_bits(trained(policy), expected));
    });
  };
  check(Shard<DDP>{});
  check(Shard<ZeRO1>{});
  check(Shard<ZeRO2>{});
  check(Shard<FSDP>{.reduce_each_microbatch = false});
  check(Shard<FSDP>{.reduce_each_microbatch = true});
  check(Shard<HSDP<1>>{});
}

}  // namespace test::ranks::used_again
