// Training on several ranks equals training on one with as many microbatches: a test double of each
// policy, over threads.
#include "test.hpp"

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks {

static_assert(std::is_empty_v<OneRank> && std::is_empty_v<OneRankGroup>);
using Alone = Mechanisms<compose_t<AdamW>>;
static_assert(is_one_rank<decltype(std::declval<Alone&>().shard.ranks())>);

/// What a training leaves: losses and norms of its steps, and its weights.
struct Trace {
  std::vector<at::Tensor> losses, weights, averaged;
  std::vector<double> norms;
};
template <class T>
std::vector<at::Tensor> copies(T& model) {
  std::vector<at::Tensor> all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().clone());
  return all;
}
template <class T, class Batches>
Trace trained(T& trainer, const Batches& batches) {
  Trace trace;
  for (const auto& batch : batches) {
    Report report = trainer.step(batch);
    trace.losses.push_back(report.mean());
    if (auto norm = report.grad_norm()) trace.norms.push_back(*norm);
  }
  trainer.with_full_weights([&](auto& model) { trace.weights = copies(model); });
  trainer.with_averaged_weights([&](auto& model) { trace.averaged = copies(model); });
  return trace;
}
/// Compares every rank's trace with that of one rank.
struct Bounds {
  bool bits = true;
  double norms = 0;
};
void compare(const Trace& got, const Trace& expected, const Bounds& bounds) {
  if (bounds.bits) {
    CHECK(same_bits(got.losses, expected.losses));
    CHECK(same_bits(got.weights, expected.weights));
    CHECK(same_bits(got.averaged, expected.averaged));
  } else {
    CHECK(worst_relative(got.losses, expected.losses) < 1e-6);
    CHECK(worst_relative(got.weights, expected.weights) < 1e-6);
  }
  REQUIRE(got.norms.size() == expected.norms.size());
  for (std::size_t i = 0; i < got.norms.size(); ++i)
    CHECK(std::abs(got.norms[i] - expected.norms[i]) <= bounds.norms * expected.norms[i]);
}

/// A recipe, and its trainer with further policies.
template <class Model, class... Ps>
struct Recipe {
  std::tuple<Ps...> values;
  Bounds bounds = {};
  std::int64_t microbatches = 1;  // of each rank

  template <class... More>
  auto trainer(Model model, std::int64_t parts, More... more) const {
    return std::apply(
        [&](auto... policies) {
          return Trainer<Model, Ps..., Accumulate<>, More...>(
              model, policies..., Accumulate<>{.microbatches = parts}, more...);
        },
        values);
  }
  Trace alone(std::int64_t ranks) const {
    auto one = trainer(Model(make<Model>()), ranks * microbatches);
    return trained(one, batches(4, ranks * microbatches * 2));
  }
  /// On `ranks` threads, each with its part of every batch.
  template <Kind K>
  void check(std::int64_t ranks, Double<K> policy, const Trace& expected) const {
    CAPTURE(ranks);
    CAPTURE(K);
    std::vector<Model> models;
    std::vector<Trace> traces(static_cast<std::size_t>(ranks));
    for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Model>());
    const auto all = batches(4, ranks * microbatches * 2);
    on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
      const auto r = static_cast<std::size_t>(wire->rank());
      Double<K> own = policy;
      own.wire = wire;
      auto one = trainer(models[r], microbatches, own);
      std::vector<Rows> mine;
      for (const Rows& batch : all) mine.push_back(part(batch, wire->rank(), ranks));
      traces[r] = trained(one, mine);
    });
    Bounds own = bounds;
    if (K == Kind::DDP && bounds.bits) own.norms = 0;
    for (const Trace& trace : traces) compare(trace, expected, own);
  }
  void check_all() const {
    for (std::int64_t ranks : {2, 3}) {
      const Trace expected = alone(ranks);
      check(ranks, Double<Kind::DDP>{}, expected);
      check(ranks, Double<Kind::ZeRO2>{}, expected);
      check(ranks, Double<Kind::FSDP>{}, expected);
    }
  }
};
template <class Model, class... Ps>
Recipe<Model, Ps...> recipe(Bounds bounds, std::int64_t microbatches, Ps... values) {
  return {{std::move(values)...}, bounds, microbatches};
}
const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};

TEST_CASE("ranks: groups, frozen weights, a late count, Checkpoint<Full>, the norm") {
  recipe<Late>({.norms = 1e-6}, 1, adamw, GradNorm{}, Checkpoint<Full>{},
               Freeze<>{.match = named("*.still.weight")})
      .check_all();
}
TEST_CASE("ranks: BF16, Checkpoint<Selective>, EMA") {
  recipe<Counted>({}, 1, adamw, Precision<BF16>{}, Checkpoint<Selective>{}, EMA{.decay = 0.5})
      .check_all();
}
TEST_CASE("ranks: BF16Weights, Checkpoint<Segments>") {
  recipe<Counted>({}, 1, adamw, Precision<BF16Weights>{}, Checkpoint<Segments<2>>{}).check_all();
}
TEST_CASE("ranks: clipping, and several microbatches on each rank") {
  AdamW slow = adamw;
  slow.lr = 1e-3;
  recipe<Counted>({.bits = false, .norms = 1e-6}, 2, slow, ClipGradNorm{.max_norm = 0.05})
      .check_all();
}

TEST_CASE("ranks: whole parameters are trained with another number of microbatches on each rank") {
  const auto all = batches(3, 6);
  AdamW slow = adamw;
  slow.lr = 1e-3;
  Trainer alone{make<Counted>(), slow};
  for (const Rows& batch : all) alone.step(batch);
  const auto expected = copies(alone.model());
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], slow, Double<Kind::DDP>{.wire = wire}};
    for (const Rows& batch : all) {
      std::vector<Rows> mine{part(batch, 0, 3)};  // rank 1 has the other two thirds
      if (r == 1) mine = {part(batch, 1, 3), part(batch, 2, 3)};
      trainer.step(mine);
    }
    CHECK(worst_relative(copies(models[r]), expected) < 1e-6);
  });
}

}  // namespace test::ranks
