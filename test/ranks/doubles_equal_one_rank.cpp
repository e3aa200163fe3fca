// Training on several ranks equals training on one with as many microbatches: a test double of each
// policy, over threads.
#include "test.hpp"

#include "recipes.hpp"

using namespace ikebana;

namespace test::ranks {

static_assert(std::is_empty_v<OneRank> && std::is_empty_v<OneRankGroup>);
using OfOneRank = Mechanisms<compose_t<AdamW>>;
static_assert(is_one_rank<decltype(std::declval<OfOneRank&>().shard.ranks())>);

/// Compares test doubles, on threads, with one rank.
template <class R>
void check_all(const R& recipe) {
  for (std::int64_t ranks : {2, 3}) {
    const Trace expected = recipe.alone(ranks);
    auto check = [&]<Kind K>(std::integral_constant<Kind, K>) {
      CAPTURE(K);
      Bounds bounds = recipe.bounds;
      if (K == Kind::DDP && bounds.bits) bounds.norms = 0;
      auto run = [](std::int64_t n, const auto& f) {
        on_threads(n,
                   [&](std::shared_ptr<Wire> wire) { f(wire->rank(), Double<K>{.wire = wire}); });
      };
      recipe.check(ranks, run, expected, bounds);
    };
    check(std::integral_constant<Kind, Kind::DDP>());
    check(std::integral_constant<Kind, Kind::ZeRO2>());
    check(std::integral_constant<Kind, Kind::FSDP>());
  }
}
const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};

TEST_CASE("ranks: groups, frozen weights, a late count, Checkpoint<Full>, the norm") {
  check_all(recipe<Late>({.norms = 1e-6}, 1, adamw, GradNorm{}, Checkpoint<Full>{},
                         Freeze<>{.match = named("*.still.weight")}));
}
TEST_CASE("ranks: BF16, Checkpoint<Selective>, EMA") {
  check_all(
      recipe<Counted>({}, 1, adamw, Precision<BF16>{}, Checkpoint<Selective>{}, EMA{.decay = 0.5}));
}
TEST_CASE("ranks: BF16Weights, Checkpoint<Segments>") {
  check_all(recipe<Counted>({}, 1, adamw, Precision<BF16Weights>{}, Checkpoint<Segments<2>>{}));
}
TEST_CASE("ranks: clipping, and several microbatches on each rank") {
  AdamW slower = adamw;
  slower.lr = 1e-3;
  check_all(
      recipe<Counted>({.bits = false, .norms = 1e-6}, 2, slower, ClipGradNorm{.max_norm = 0.05}));
}

TEST_CASE("ranks: whole parameters are trained with another number of microbatches on each rank") {
  const auto all = batches(3, 6);
  AdamW slower = adamw;
  slower.lr = 1e-3;
  Trainer alone{make<Counted>(), slower};
  for (const Rows& batch : all) alone.step(batch);
  const auto expected = copies(alone.model());
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], slower, Double<Kind::DDP>{.wire = wire}};
    for (const Rows& batch : all) {
      std::vector<Rows> mine{part(batch, 0, 3)};  // rank 1 has the other two thirds
      if (r == 1) mine = {part(batch, 1, 3), part(batch, 2, 3)};
      trainer.step(mine);
    }
    CHECK(worst_relative(copies(models[r]), expected) < 1e-6);
  });
}

}  // namespace test::ranks
