// Slices that are sent by themselves, and received in place: those of wide layers.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::wide {

/// One unit. Cuts are at multiples of eight elements, as a fused optimizer needs them for its bits.
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(240, 288)),
                    back = register_module("back", torch::nn::Linear(288, 240));
  at::Tensor beside =
      register_parameter("beside", at::ones({288, 240}));  // the loss does not use it
  at::Tensor forward(const at::Tensor& x) { return x + back(at::tanh(layer(x))); }
};
TORCH_MODULE(Block);
struct WideImpl : torch::nn::Module {
  using units = Units<Block>;
  Block a = register_module("a", Block()), b = register_module("b", Block());
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = run(b, run(a, batch.input));
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Wide);

std::vector<Rows> wide_rows() {
  torch::manual_seed(5);
  std::vector<Rows> all;
  for (int i = 0; i < 3; ++i) all.push_back({at::randn({6, 240}), at::rand({6, 240})});
  return all;
}
template <class T, class Cut>
std::vector<at::Tensor> weights_after(T& trainer, const std::vector<Rows>& batches,
                                      const Cut& cut) {
  for (const Rows& batch : batches) trainer.step(cut(batch));
  std::vector<at::Tensor> all;
  trainer.with_full_weights([&](Wide& model) {
    for (const auto& p : model->parameters()) all.push_back(p.detach().clone());
  });
  return all;
}
template <class How>
void check() {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const std::vector<Rows> batches = wide_rows();
  for (std::int64_t ranks : {2, 3}) {
    Trainer alone{make<Wide>(), AdamW{.lr = 1e-3}, Accumulate<>{.microbatches = ranks}};
    const auto expected = weights_after(alone, batches, [](const Rows& batch) { return batch; });
    std::vector<Wide> models{make<Wide>(), make<Wide>(), make<Wide>()};
    on_groups(ranks, [&](const ProcessGroup& group) {
      Trainer trainer{models[static_cast<std::size_t>(group.rank())], AdamW{.lr = 1e-3},
                      Shard<How>{.process_group = group}};
      auto cut = [&](const Rows& batch) { return part(batch, group.rank(), ranks); };
      Rows bad = cut(batches[0]);
      if (group.rank() == 1) bad.target = bad.target.narrow(1, 0, 7);
      CHECK(message_of([&] { trainer.step(bad); }) != "");  // in the middle of messages
      CHECK(same_bits(weights_after(trainer, batches, cut), expected));
    });
  }
}
TEST_CASE("wide: large slices arrive in place, and the bits are those of one rank") {
  check<ZeRO1>(), check<ZeRO2>(), check<FSDP>();
}

}  // namespace test::ranks::wide
