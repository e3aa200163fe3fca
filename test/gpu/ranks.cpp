// Two ranks on one device train as one rank with two microbatches. Their messages are copied to the
// host and back. One rank with a policy on shard trains as one without it.
#include "ranks.hpp"

#include "guarantees.hpp"
#include "state/folder.hpp"

namespace gpu::ranks {

using namespace ikebana;
using test::contains, test::message_of, test::same_bits, test::same_state, test::worst_relative;
using test::ranks::batches, test::ranks::Bounds, test::ranks::Counted, test::ranks::on_groups,
    test::ranks::part, test::ranks::recipe, test::ranks::Rows, test::ranks::shards,
    test::ranks::whole;

/// The CPU and the simulated device compute with the same bits in one microbatch as in another. For
/// a GPU rounding is allowed; `eps` keeps Adam from making it large.
constexpr double rounding_of_weights = 1e-5;
Bounds bounds(Bounds of_bits = {}) {
  if (on_cuda()) of_bits.bits = false, of_bits.weights = rounding_of_weights;
  if (on_cuda() && of_bits.norms > 0) of_bits.norms = 1e-4;
  return of_bits;
}
const AdamW steady{.lr = 1e-2, .eps = 1e-3, .weight_decay = 0.1, .groups = {no_decay()}};
auto averaged() { return recipe<Counted>(bounds(), 1, steady, EMA{.decay = 0.5}, GradNorm{}); }

/// Checks the host memory that a training needs in place of the device's. On a CPU there is no
/// such memory. Otherwise it is at least what a rank sends, and as much as it receives.
void check_staged(const ProcessGroup& group, std::int64_t least) {
  const std::int64_t staged = group.members()->staged_bytes;
  if (on_cpu()) CHECK(staged == 0);
  else CHECK(staged >= least);
}
std::int64_t bytes_of(const Counted& model) {
  std::int64_t bytes = 0;
  for (const auto& p : model->parameters()) bytes += static_cast<std::int64_t>(p.nbytes());
  return bytes;
}

/// Calls `f<How>(policy)` for each policy on shard, of two ranks.
template <class F>
void each_policy(const F& f) {
  f(Shard<DDP>{.bucket_cap_mb = 0.01, .ordered = true});
  f(Shard<ZeRO1>{});
  f(Shard<ZeRO2>{});
  f(Shard<FSDP>{});
  f(Shard<HSDP<1>>{.ordered = true});
  f(Shard<HSDP<2>>{.ordered = true});
}

TEST_CASE("ranks: one rank under each policy on shard has the bits of one without") {
  const RanksOnDevice models;
  const Deterministic deterministic;
  const auto row = averaged();
  const auto expected = row.alone(1);
  each_policy([&]<class How>(const Shard<How>& policy) {
    CAPTURE(ikebana::detail::type_name<Shard<How>>());
    if constexpr (!std::is_same_v<How, HSDP<2>>)
      row.check(1, shards(policy), expected, {.norms = on_cpu() ? 0.0 : 1e-6});
  });
}
TEST_CASE("ranks: two ranks under each policy on shard train as one with two microbatches") {
  const RanksOnDevice models;
  const Deterministic deterministic;
  const auto row = averaged();
  const auto expected = row.alone(2);
  each_policy([&]<class How>(const Shard<How>& policy) {
    CAPTURE(ikebana::detail::type_name<Shard<How>>());
    row.check(2, shards(policy), expected, bounds({.norms = 1e-6}));
  });
  const Bounds of_rounding{.bits = false, .norms = 1e-4, .weights = rounding_of_weights};
  row.check(2, shards(Shard<DDP>{.bucket_cap_mb = 0.01, .ordered = false}), expected, of_rounding);
  row.check(2, shards(Shard<HSDP<1>>{.ordered = false}), expected, of_rounding);
}

/// The results of a training: its weights, and losses of evaluations with averaged weights.
struct Left {
  std::vector<at::Tensor> weights;
  std::vector<double> losses;
};
/// One rank makes four steps of two microbatches, and evaluates after the second one.
Left left_by_one() {
  const auto all = batches(4, 4);
  auto trainer = averaged().trainer(test::ranks::make<Counted>(), 2);
  Left left;
  for (std::size_t s = 0; s < all.size(); ++s) {
    trainer.step(all[s]);
    if (s == 1)
      left.losses.push_back(
          trainer.evaluate(std::vector{part(all[3], 0, 2), part(all[3], 1, 2)}).loss);
  }
  left.weights = whole(trainer);
  return left;
}
void compare(const Left& got, const Left& expected) {
  if (on_cuda()) CHECK(worst_relative(got.weights, expected.weights) < rounding_of_weights);
  else CHECK(same_bits(got.weights, expected.weights));
  REQUIRE(got.losses.size() == expected.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-6));
}
/// Checks that a step that throws in the forward of rank 1 changes nothing on any rank.
template <class T>
void fails(T& trainer, const Rows& batch) {
  const bool is_own = trainer.rank() == 1;
  const StateDict before = kept_state(trainer);
  if (is_own) trainer.model()->during_forward = [] { throw Error("no forward"); };
  const std::string text = message_of([&] { trainer.step(batch); });
  trainer.model()->during_forward = {};
  CHECK_MESSAGE(contains(text, is_own ? "no forward" : "rank 1: no forward"), text);
  CHECK(same_state(kept_state(trainer), before));
}
/// Trains on two ranks, saves after the third step, and continues on one rank from there.
template <class How>
void goes_on(const Shard<How>& policy, const Left& expected) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const test::Folder folder;
  const auto all = batches(4, 4);
  std::vector<Counted> models{test::ranks::make<Counted>(), test::ranks::make<Counted>()};
  const std::int64_t bytes = bytes_of(models[0]);
  on_groups(2, [&](const ProcessGroup& group) {
    Shard<How> own = policy;
    own.process_group = group;
    auto trainer = averaged().trainer(models[static_cast<std::size_t>(group.rank())], 1, own);
    auto mine = [&](std::size_t s) { return part(all[s], group.rank(), 2); };
    Left left;
    trainer.step(mine(0));
    fails(trainer, mine(1));
    trainer.step(mine(1));
    left.losses.push_back(trainer.evaluate(std::vector{mine(3)}).loss);
    trainer.step(mine(2));
    trainer.save(folder / "state");
    check_staged(group, 4 * bytes);  // three steps, and rank 0's weights at the beginning
    trainer.step(mine(3));
    left.weights = whole(trainer);
    compare(left, expected);
  });
  auto alone = averaged().trainer(test::ranks::make<Counted>(), 2);
  alone.load(folder / "state");
  CHECK(alone.steps() == 3);
  alone.step(all[3]);
  compare({whole(alone), expected.losses}, expected);
}
TEST_CASE("ranks: a failed step is undone on both; both evaluate and save, and one goes on alone") {
  const RanksOnDevice models;
  const Deterministic deterministic;
  const Left expected = left_by_one();
  each_policy([&](const auto& policy) { goes_on(policy, expected); });
}

}  // namespace gpu::ranks
