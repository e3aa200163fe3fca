// Under Capture<EachUnit> ranks exchange outside of what is replayed: every step is the step
// without it.
#include "test.hpp"

#include <ikebana/capture.hpp>

#include "groups.hpp"
#include "on_ranks.hpp"

using namespace ikebana;

namespace test::ranks::captured {

template <class Trainer>
std::vector<at::Tensor> losses_and_weights(Trainer& trainer, std::int64_t rank,
                                           const std::vector<Rows>& batches) {
  std::vector<at::Tensor> all;
  for (const Rows& batch : batches) all.push_back(trainer.step(part(batch, rank, 2)).mean());
  for (at::Tensor& p : whole(trainer)) all.push_back(std::move(p));
  return all;
}

template <class How, class... Policies>
void check(const Policies&... policies) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const std::vector<Rows> all = batches(10, 4);
  std::vector<Counted> models{make<Counted>(), make<Counted>(), make<Counted>(), make<Counted>()};
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    const Shard<How> shard{.process_group = group};
    Trainer eager{models[r], slow, policies..., shard};
    const auto expected = losses_and_weights(eager, group.rank(), all);
    Trainer captured{models[r + 2], slow, policies..., shard, Capture<EachUnit>{}};
    CHECK(same_bits(losses_and_weights(captured, group.rank(), all), expected));
    const auto& capture = captured.template mechanism<Capture<EachUnit>>();
    CHECK(capture.recordings() > 0);
    CHECK(capture.replays() > capture.recordings());
  });
}

TEST_CASE("captured units: ranks exchange outside of them") {
  check<DDP>();
  check<DDP>(Accumulate<2>{}, ClipGradNorm{.max_norm = 1e6});
  check<ZeRO2>(Checkpoint<Full>{});
  check<FSDP>();
  check<FSDP>(Accumulate<2>{}, Precision<BF16Weights>{}, Checkpoint<Selective>{});
  check<HSDP<2>>(Checkpoint<Full>{});
}

/// The gradient of a unit's result has another form if `expands`.
struct ExpandingImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  Inner inner = register_module("inner", Inner());
  bool expands = false;

  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor y = run(inner, embed(batch.input));
    if (expands) y = y.sum(0, true).expand(y.sizes());
    return {.sum = (expands ? y.sum() : y.square().sum()), .count = batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Expanding);

/// One rank finds out in backward that a unit cannot be replayed: the step fails on all ranks, and
/// changes nothing.
template <class How>
void check_one_fails(std::int64_t failing) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const std::vector<Rows> all = batches(10, 4);
  std::vector<Expanding> models{make<Expanding>(), make<Expanding>(), make<Expanding>(),
                                make<Expanding>()};
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    const Shard<How> shard{.process_group = group};
    Trainer eager{models[r], slow, shard};
    Trainer captured{models[r + 2], slow, shard, Capture<EachUnit>{}};
    std::string error;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Rows batch = part(all[i], group.rank(), 2);
      models[r]->expands = models[r + 2]->expands = i == 6 && group.rank() == failing;
      const auto step = [&] { return captured.step(batch).mean(); };
      at::Tensor loss;
      try {
        loss = step();
      } catch (const Error& e) {
        error += e.what();
        loss = step();  // again
      }
      CHECK(same_bits(loss, eager.step(batch).mean()));
    }
    CHECK(same_bits(whole(captured), whole(eager)));
    CHECK(contains(error, "Capture<EachUnit>: the gradients of the results of unit `inner`"));
    CHECK(contains(error, "Make the step again"));
    const auto usual = captured.template mechanism<Capture<EachUnit>>().usual_calls();
    CHECK((usual > 0) == (group.rank() == failing));
  });
}

TEST_CASE("captured units: gradients of another form on one rank") {
  check_one_fails<DDP>(0);
  check_one_fails<DDP>(1);
  check_one_fails<FSDP>(1);
}

}  // namespace test::ranks::captured
