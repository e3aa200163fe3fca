// Accumulate<Fit<>>: how many microbatches a step has, and what it reports.
#include "fit_net.hpp"

#include <filesystem>
#include <fstream>
#include <ranges>
#include <sstream>

using namespace ikebana;

namespace test::fit_memory {

static_assert(!std::is_same_v<decltype(Fit<64>), const std::int64_t> && Fit<64> != Fit<>);

using Fitting = Trainer<RoomNet, SGD, Accumulate<Fit<>>>;
const SGD sgd{.lr = 0.05, .momentum = 0.9};

Fitting fitting(Accumulate<Fit<>> policy, std::int64_t room = 1 << 20) {
  return Fitting(room_net(room), sgd, policy);
}
auto counted(std::int64_t microbatches = 1) {
  return Trainer{room_net(), sgd, Accumulate<>{.microbatches = microbatches}};
}
const auto& of(Fitting& trainer) { return trainer.mechanism<Accumulate<Fit<>>>(); }
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
Pairs changes_of(Fitting& trainer) {
  Pairs all;
  for (const FitChange& change : of(trainer).history()) all.emplace_back(change.from, change.to);
  return all;
}
/// Both are at the same point of one training.
template <class Other>
void check_same(Fitting& trainer, Other& other) {
  CHECK(same_bits(values_of(trainer.model()), values_of(other.model())));
}

TEST_CASE("fit: a step has the bits of Accumulate<N> with the number that it ends with") {
  for (const std::int64_t rows : {16, 13, 3}) {
    CAPTURE(rows);
    auto trainer = fitting({.max = 64}, 5);
    auto other = counted();
    torch::manual_seed(5);
    Report report = trainer.step(items(rows));
    const std::int64_t n = rows == 3 ? 1 : 4, undone = rows == 3 ? 0 : 2;
    CHECK(report.microbatches == n);
    CHECK(report.undone == undone);
    other.get<Accumulate<>>().microbatches = n;
    torch::manual_seed(5);
    Report expected = other.step(items(rows));
    CHECK(!expected.undone);
    CHECK(same_bits(report.mean(), expected.mean()));
    CHECK(same_bits(report.outputs, expected.outputs));
    check_same(trainer, other);
    torch::manual_seed(6);
    CHECK(trainer.step(items(rows)).undone == 0);  // the number stays
    torch::manual_seed(6);
    other.step(items(rows));
    check_same(trainer, other);
  }
}

TEST_CASE("fit: each batch of a range is cut") {
  auto trainer = fitting({.max = 64}, 3);
  auto other = counted();
  const std::vector<Items> range{items(8, 1), items(2, 3), items(5, 5)};
  std::vector<Items> cut;
  for (const Items& one : range)
    for (const Items& part : split(one, 4)) cut.push_back(part);
  torch::manual_seed(5);
  const Report report = trainer.step(range);
  CHECK(report.microbatches == 4 + 2 + 4);
  CHECK(report.undone == 2);
  torch::manual_seed(5);
  CHECK(same_bits(report.mean(), other.step(cut).mean()));
  check_same(trainer, other);
  // Two rows are in two microbatches at the most; the largest batch decides.
  CHECK(trainer.step(std::vector{items(2)}).microbatches == 2);
}

TEST_CASE("fit: a range that makes its batches while it is read is read once") {
  auto trainer = fitting({.max = 8}, 4);
  auto other = counted();
  int made = 0;
  const auto numbers = std::views::iota(0, 3);
  torch::manual_seed(5);
  trainer.step(numbers | std::views::transform([&](int i) { return ++made, items(8, i); }));
  CHECK(made == 3);
  std::vector<Items> cut;
  for (int i = 0; i < 3; ++i)
    for (const Items& part : split(items(8, i), 2)) cut.push_back(part);
  torch::manual_seed(5);
  other.step(cut);
  check_same(trainer, other);
}

TEST_CASE("fit: fewer are tried after a while, which doubles with each try that fails") {
  auto trainer = fitting({.max = 8, .quiet_steps = 3}, 4);
  auto numbers = [&](int steps) {
    std::vector<std::int64_t> all;
    for (int i = 0; i < steps; ++i) {
      const Report report = trainer.step(items(8));
      all.push_back(report.microbatches + 10 * *report.undone);
    }
    return all;
  };
  using Numbers = std::vector<std::int64_t>;
  CHECK(numbers(4) == Numbers{12, 2, 2, 12});       // the try of the fourth step fails
  CHECK(numbers(6) == Numbers{2, 2, 2, 2, 2, 12});  // and that after six more
  trainer.model()->room = 8;
  CHECK(numbers(13) == Numbers{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1});
  CHECK(changes_of(trainer) == Pairs{{1, 2}, {2, 1}, {1, 2}, {2, 1}, {1, 2}, {2, 1}});
  trainer.get<Accumulate<Fit<>>>().quiet_steps = 0;
  trainer.model()->room = 4;
  CHECK(numbers(1) == Numbers{12});
  trainer.model()->room = 8;
  CHECK(numbers(30) == Numbers(30, 2));
}

TEST_CASE("fit: fewer are tried only where the measured bytes say that they fit") {
  using ikebana::detail::FitPlan;
  FitPlan plan;
  plan.grow(2, /*bytes=*/1000, /*base=*/500);
  for (int i = 0; i < 3; ++i) {
    CHECK(!plan.may_shrink(3));
    plan.end_step(400 + i, 3);
  }
  CHECK(plan.may_shrink(3));
  constexpr std::int64_t none = bridge::CountingAllocatorV2::no_limit;
  CHECK(plan.should_fit(500, none));   // 500 + 2.2 * 402 is below 1500
  CHECK(!plan.should_fit(616, none));  // other parts of the program have grown
  CHECK(plan.should_fit(500, 1385));
  CHECK(!plan.should_fit(500, 1384));
  plan.wait_again();
  CHECK(!plan.may_shrink(3));
  plan.end_step(460, 3);
  CHECK(!plan.should_fit(500, none));
  // No number of failed tries is too large to shift by.
  CHECK(FitPlan{.microbatches = 2, .quiet = 1 << 20, .failures = 1000}.may_shrink(1));
  CHECK(!FitPlan{.microbatches = 2, .quiet = 1 << 19, .failures = 64}.may_shrink(1));
  // On a CPU with a limit: what fits in two microbatches does not in one, so it is never tried.
  bridge::MemoryCounter counter(at::kCPU);
  auto trainer = fitting({.max = 8, .quiet_steps = 2});
  const Items large = items(4096), small = items(256);
  const std::int64_t before = counter.now();
  trainer.step(large);
  const std::int64_t needed = counter.peak() - before;
  trainer.get<Accumulate<Fit<>>>().limit = counter.now() + needed * 3 / 4;
  CHECK(trainer.step(large).microbatches == 2);
  for (int i = 0; i < 6; ++i) CHECK(trainer.step(large).undone == 0);
  CHECK(changes_of(trainer) == Pairs{{1, 2}});
  CHECK(of(trainer).history()[0].bytes > needed / 4);
  for (int i = 0; i < 6; ++i) CHECK(trainer.step(small).undone == 0);
  CHECK(changes_of(trainer) == Pairs{{1, 2}, {2, 1}});
}

TEST_CASE("fit: a limit is in force in steps and evaluations, within a smaller MemoryLimit") {
  auto& allocator = bridge::CountingAllocatorV2::install();
  auto trainer = fitting({.max = 8, .limit = std::int64_t{1} << 40});
  std::vector<std::int64_t> limits;
  trainer.model()->during_forward = [&](const Items&) { limits.push_back(allocator.limit()); };
  trainer.step(items(4));
  {
    const MemoryLimit outer(std::int64_t{1} << 39);
    trainer.step(items(4));
    trainer.get<Accumulate<Fit<>>>().limit = std::int64_t{1} << 38;
    trainer.evaluate(std::vector{items(4)});
    CHECK(allocator.limit() == std::int64_t{1} << 39);
  }
  using Limits = std::vector<std::int64_t>;
  CHECK(limits == Limits{std::int64_t{1} << 40, std::int64_t{1} << 39, std::int64_t{1} << 38});
  CHECK(allocator.limit() == bridge::CountingAllocatorV2::no_limit);
  // The limits of two threads end in any order.
  auto first = std::make_unique<ikebana::bridge::SharedMemoryLimit>(1 << 20);
  const ikebana::bridge::SharedMemoryLimit second(1 << 21);
  CHECK(allocator.limit() == 1 << 20);
  first.reset();
  CHECK(allocator.limit() == 1 << 21);
}

TEST_CASE("fit: a step that throws leaves the number, and all else, as it was") {
  auto trainer = fitting({.max = 4}, 4);
  const StateDict before = trainer.state();
  Items bad = items(8);
  bad.input[7].fill_(NAN);
  CHECK_THROWS_AS(trainer.step(bad), NonFinite);
  CHECK(same_state(trainer.state(), before));
  CHECK(of(trainer).microbatches() == 1);
  CHECK(of(trainer).changes() == 1);
  trainer.model()->room = 0;
  CHECK(told<OutOfMemory>([&] { trainer.step(items(8)); },
                          {"no room for so many rows (step, after step 0) Nothing was updated",
                           "cut each batch into 1, 2, 4 microbatches, and memory ran out with each",
                           "its max. Write a larger max", "Checkpoint<Full>"}) == "");
  CHECK(same_state(trainer.state(), before));
  CHECK(told<OutOfMemory>([&] { trainer.step(items(3)); },
                          {"into 1, 2, 3 microbatches", "the last one is one row"}) == "");
  CHECK(same_state(trainer.state(), before));
  trainer.model()->room = 4;
  CHECK(trainer.step(items(8)).microbatches == 2);
}

TEST_CASE(
    "fit: values that cannot be used, and batches that cannot be computed again, are errors") {
  CHECK(told<BadValue>([] { fitting({.max = 0}); }, {"max is 0", "{.max = 64}"}) == "");
  CHECK(told<BadValue>([] { fitting({.max = 1, .quiet_steps = -1}); }, {"quiet_steps is -1"}) ==
        "");
  CHECK(told<BadValue>([] { fitting({.max = 1, .limit = -5}); }, {"limit is -5 bytes"}) == "");
  bridge::MemoryCounter counter(at::kCPU);
  const at::Tensor kept = at::zeros({1000});
  auto trainer = fitting({.max = 8}, 4);
  trainer.get<Accumulate<Fit<>>>().limit = 3999;
  for (bool evaluates : {false, true})
    CHECK(told<BadValue>(
              [&] {
                if (evaluates) trainer.evaluate(std::vector{items(8)});
                else trainer.step(items(8));
              },
              {"limit is 3999 bytes, and ", " are in use already", "Raise it"}) == "");
  trainer.get<Accumulate<Fit<>>>() = {.max = 8};
  trainer.model()->during_forward = [](const Items& batch) { batch.input.mul_(2); };
  CHECK(told<BadModel>([&] { trainer.step(items(8)); },
                       {"no room", "the loss has changed a tensor of it in place"}) == "");
  CHECK(told<BadModel>([&] { trainer.evaluate(std::vector{items(8)}); },
                       {"no room", "the loss has changed a tensor of it in place"}) == "");
}

}  // namespace test::fit_memory
