// The policies on shard: training on several ranks equals training on one with as many
// microbatches. The rows cover each pair of a policy and a choice on another axis.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::shard_laws {

template <class How, class R>
void check(const R& recipe, Shard<How> policy = {}) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  for (std::int64_t ranks : {1, 2, 3}) {
    Bounds bounds = recipe.bounds;
    if (ranks == 1) bounds = {.bits = true, .norms = recipe.bounds.norms};
    recipe.check(ranks, shards(policy), recipe.alone(ranks), bounds);
  }
}
template <class... Hows, class R>
void equals_one_rank(const R& recipe) {
  (check<Hows>(recipe), ...);
}
const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};

TEST_CASE("shard: groups, frozen weights, a late count, Checkpoint<Full>, the norm") {
  equals_one_rank<ZeRO1, FSDP>(recipe<Late>({.norms = 1e-6}, 1, adamw, GradNorm{},
                                            Checkpoint<Full>{},
                                            Freeze<>{.match = named("*.still.weight")}));
}
TEST_CASE("shard: BF16, Checkpoint<Selective>, EMA") {
  equals_one_rank<ZeRO2, FSDP>(
      recipe<Counted>({}, 1, adamw, Precision<BF16>{}, Checkpoint<Selective>{}, EMA{.decay = 0.5}));
}
TEST_CASE("shard: BF16Weights, Checkpoint<Segments>") {
  const auto row = recipe<Counted>({}, 1, SGD{.lr = 1e-2, .momentum = 0.9},
                                   Precision<BF16Weights>{}, Checkpoint<Segments<2>>{});
  equals_one_rank<ZeRO1, ZeRO2, FSDP>(row);
}
TEST_CASE("shard: FP16, Lion, a schedule") {
  const auto row =
      recipe<Counted>({}, 1, Lion{.lr = 1e-3}, Precision<FP16>{}, CosineAnnealingLR{.T_max = 10});
  equals_one_rank<ZeRO1, FSDP>(row);
}
TEST_CASE("shard: Adam, Checkpoint<Every>, a clip that is not active") {
  const auto row = recipe<Late>({.norms = 1e-6}, 1, Adam{.lr = 1e-2, .amsgrad = true},
                                Checkpoint<Every<2>>{}, ClipGradNorm{.max_norm = 1e6});
  equals_one_rank<ZeRO2, FSDP>(row);
}
TEST_CASE("shard: clipping, and several microbatches on each rank") {
  AdamW gentle = adamw;
  gentle.lr = 1e-3;
  equals_one_rank<ZeRO1, ZeRO2, FSDP>(
      recipe<Counted>({.bits = false, .norms = 1e-6}, 2, gentle, ClipGradNorm{.max_norm = 0.05}));
}
TEST_CASE("shard: units that stay gathered, no prefetch, one reduction a step") {
  const auto row = recipe<Counted>({}, 1, Adagrad{.lr = 1e-2});
  check<FSDP>(row, {.reshard_after_forward = false, .forward_prefetch = false});
  check<FSDP>(row, {.reshard_after_forward = true, .backward_prefetch = false});
  check<FSDP>(row, {.reduce_each_microbatch = false});
  check<ZeRO2>(row, {.reduce_each_microbatch = false});
}

}  // namespace test::ranks::shard_laws
