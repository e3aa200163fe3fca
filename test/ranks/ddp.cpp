// Shard<DDP>: gradients in buckets, in the order of ranks, while backward runs; sparse ones; buffers.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks {

/// Against one rank with as many microbatches.
template <class R>
void check_ddp(const R& recipe, Shard<DDP> policy = {}) {
  for (std::int64_t ranks : {1, 2, 3}) {
    Bounds bounds = recipe.bounds;
    if (ranks == 1) bounds = {.bits = true, .norms = recipe.bounds.norms};
    recipe.check(ranks, shards(policy), recipe.alone(ranks), bounds);
  }
}
const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};

TEST_CASE("ddp: groups, frozen weights, a late count, Checkpoint<Full>, the norm, any buckets") {
  const auto row = recipe<Late>({}, 1, adamw, GradNorm{}, Checkpoint<Full>{},
                                Freeze<>{.match = named("*.still.weight")});
  for (double mib : {1e-6, 0.005, 0.02, 1.0}) check_ddp(row, {.bucket_cap_mb = mib});
}
TEST_CASE("ddp: FP16, EMA, Checkpoint<Selective>") {
  check_ddp(recipe<Counted>({}, 1, adamw, Precision<FP16>{}, Checkpoint<Selective>{},
                            EMA{.decay = 0.5}));
}
TEST_CASE("ddp: BF16Weights, BF16True, Checkpoint<Segments>") {
  check_ddp(recipe<Counted>({}, 1, adamw, Precision<BF16Weights>{}, Checkpoint<Segments<2>>{}),
            {.bucket_cap_mb = 0.01});
  check_ddp(recipe<Counted>({}, 1, adamw, Precision<BF16True>{}), {.bucket_cap_mb = 0.01});
}
TEST_CASE("ddp: clipping, several microbatches on each rank, an all-reduce, a reduce_dtype") {
  AdamW slow = adamw;
  slow.lr = 1e-3;
  const auto row =
      recipe<Counted>({.bits = false, .norms = 1e-6}, 2, slow, ClipGradNorm{.max_norm = 0.05});
  check_ddp(row, {.bucket_cap_mb = 0.01});
  check_ddp(row, {.bucket_cap_mb = 0.01, .ordered = false});
  check_ddp(row, {.bucket_cap_mb = 0.01, .reduce_dtype = at::kDouble});
}

}  // namespace test::ranks
