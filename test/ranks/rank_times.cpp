// Tests Observe<RankTimes>: a rank that all others wait for is named, equal ranks are not, and a
// call of one rank alone is an error.
#include "test.hpp"

#include <ikebana/observe.hpp>
#include <thread>

#include "groups.hpp"

using namespace ikebana;
using namespace std::chrono_literals;
using ikebana::detail::rank_times_summary, ikebana::detail::StepWait;

namespace test::ranks::rank_times {

constexpr std::int64_t ranks = 3;

/// Trains on three ranks, each of which sleeps in its forward; returns the summary of each.
template <class How>
std::vector<RankTimesSummary> trained(const std::vector<std::chrono::milliseconds>& sleeps) {
  std::vector<RankTimesSummary> all(sleeps.size());
  shards(Shard<How>())(ranks, [&](std::int64_t rank, auto shard) {
    const auto r = static_cast<std::size_t>(rank);
    Counted model = make<Counted>();
    model->during_forward = [&, r] { std::this_thread::sleep_for(sleeps[r]); };
    Trainer trainer{model, SGD{.lr = 0.1}, shard, Observe<RankTimes>{.warmup = 1}};
    for (const Rows& batch : batches(8, 6)) trainer.step(part(batch, rank, ranks));
    all[r] = ikebana::rank_times(trainer);
  });
  for (const auto& one : all) CHECK(one.csv() == all[0].csv());
  CHECK(all[0].steps == 6);  // without the first one, and the one after it
  return all;
}

template <class How>
void names_the_slowest() {
  const RankTimesSummary found = trained<How>({0ms, 0ms, 60ms})[0];
  CAPTURE(found.table());
  CHECK(found.slowest == 2);
  CHECK(found.share > 0.3);
  CHECK(found.ranks[2].waiting < found.ranks[0].waiting);
  CHECK(found.ranks[2].compute > found.ranks[1].compute);
  CHECK(contains(found.table(), "rank 2 is the slowest: the others wait "));
  for (const RankTime& one : found.ranks)
    CHECK(one.compute + one.waiting == doctest::Approx(one.step));
}
TEST_CASE("rank times: a rank that sleeps in its forward is named on all ranks") {
  names_the_slowest<DDP>();
  names_the_slowest<FSDP>();
}

TEST_CASE("rank times: equal ranks are not named") {
  const RankTimesSummary found = trained<DDP>({60ms, 60ms, 60ms})[0];
  CAPTURE(found.table());
  CHECK_FALSE(found.slowest.has_value());
  CHECK(contains(found.text(), "no rank is slower"));
}

/// Returns the times of `steps` steps of 1 s, of which `waited(step)` was waited.
template <class F>
std::vector<StepWait> steps_of(int steps, const F& waited) {
  std::vector<StepWait> all;
  for (int i = 0; i < steps; ++i) all.push_back({1, waited(i)});
  return all;
}

TEST_CASE("rank times: a difference that is small, or by chance, names no rank") {
  const auto often = steps_of(20, [](int i) { return i % 2 == 0 ? 0.31 : 0.29; });
  auto slowest = [&](const std::vector<StepWait>& other) {
    return rank_times_summary({often, other, often}).slowest;
  };
  CHECK(slowest(steps_of(20, [](int) { return 0.1; })) == 1);
  CHECK(rank_times_summary({often, steps_of(20, [](int) { return 0.1; })}).share ==
        doctest::Approx(0.2));
  CHECK_FALSE(slowest(steps_of(20, [](int) { return 0.27; })));                   // 3 %
  CHECK_FALSE(slowest(steps_of(4, [](int) { return 0.1; })));                     // too few steps
  CHECK_FALSE(slowest(steps_of(20, [](int i) { return i == 7 ? -1.7 : 0.3; })));  // one step
}

TEST_CASE("rank times: a step that throws is not measured, and the next one begins again") {
  shards(Shard<DDP>())(2, [&](std::int64_t rank, auto shard) {
    Counted model = make<Counted>();
    Trainer trainer{model, SGD{.lr = 0.1}, shard, Observe<RankTimes>{.warmup = 0}};
    const Rows batch = part(batches(1, 4)[0], rank, 2);
    trainer.step(batch), trainer.step(batch);
    if (rank == 1) model->during_forward = [] { throw std::runtime_error("no forward"); };
    CHECK_THROWS(trainer.step(batch));
    model->during_forward = {};
    trainer.step(batch), trainer.step(batch);
    CHECK(ikebana::rank_times(trainer).steps == 2);
    trainer.template mechanism<Observe<RankTimes>>().reset();
    CHECK(contains(ikebana::rank_times(trainer).text(), "no step was measured"));
  });
}

TEST_CASE("rank times: a call of one rank alone is an error of all, which go on") {
  shards(Shard<DDP>())(2, [&](std::int64_t rank, auto shard) {
    Trainer trainer{make<Counted>(), SGD{.lr = 0.1}, shard, Observe<RankTimes>{}};
    const Rows batch = part(batches(1, 4)[0], rank, 2);
    trainer.step(batch);
    const std::string text = message_of<Error>([&] {
      if (rank == 0) ikebana::rank_times(trainer);
      else trainer.step(batch);
    });
    CHECK_MESSAGE(contains(text, "rank_times"), text);
    CHECK_MESSAGE(contains(text, "the opening of a step"), text);
    CHECK(trainer.step(batch).step == 1);
  });
}

TEST_CASE("rank times: a group that cannot say how long it waits is refused before the step") {
  on_threads(2, [](std::shared_ptr<Wire> wire) {
    Trainer trainer{make<Counted>(), SGD{.lr = 0.1}, Observe<RankTimes>{},
                    Double<Kind::DDP>{.wire = wire}};
    const Rows batch = part(batches(1, 4)[0], wire->rank(), 2);
    CHECK(contains(message_of<Error>([&] { trainer.step(batch); }), "cannot say how long"));
  });
}

TEST_CASE("rank times: values out of range are refused") {
  using Times = Observe<RankTimes>;
  for (const Times& bad : {Times{.warmup = -1}, Times{.keep = 0}})
    CHECK_THROWS_AS((Trainer{make<Counted>(), SGD{}, Shard<DDP>{}, bad}), BadValue);
}

}  // namespace test::ranks::rank_times
