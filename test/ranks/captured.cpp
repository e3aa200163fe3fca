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

}  // namespace test::ranks::captured
