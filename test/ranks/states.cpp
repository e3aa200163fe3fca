// A state that N ranks saved loads on M ranks, under any policy on shard, to the bit; what several
// ranks save is what one rank would.
#include <algorithm>
#include <map>
#include <span>

#include "states.hpp"

namespace {
namespace states {

using namespace test::ranks;

/// Trains `n` ranks with one microbatch each, or one with n, as many rows in all, on the batches
/// from `first` on.
void train(Any& trainer, std::int64_t rank, std::int64_t n, std::span<const Rows> some) {
  for (const Rows& batch : some) trainer.step(part(batch, rank, n));
}

std::vector<std::int64_t> numbers_of_ranks(How how) {
  if (how == How::Alone) return {1};
  if (how == How::HSDP) return {2, 4};
  return {1, 2, 3};
}

TEST_CASE("a state that several ranks save is that of one, to the bit") {
  test::Folder folder;
  const auto all = batches(3, 12);
  for (const std::int64_t n : {1, 2, 3, 4}) {
    const auto of_one = folder / "one";
    on_any(How::Alone, 1, n, [&](Any& trainer, std::int64_t) {
      train(trainer, 0, 1, std::span(all).first(2));
      trainer.save(of_one);
    });
    const StateDict expected = whole_state(of_one);
    REQUIRE(expected.size() > 40);
    for (const How how : all_hows) {
      const auto numbers = numbers_of_ranks(how);
      if (how == How::Alone || std::find(numbers.begin(), numbers.end(), n) == numbers.end())
        continue;
      on_any(how, n, 1, [&](Any& trainer, std::int64_t rank) {
        train(trainer, rank, n, std::span(all).first(2));
        trainer.save(folder / "many");
        trainer.save_full(folder / "full");
        trainer.save_async(folder / "async").wait();
      });
      for (const char* name : {"many", "full", "async"}) {
        CAPTURE(name);
        check_same(whole_state(folder / name), expected);
      }
    }
  }
}

// These are each pair of policies, and each pair of numbers of ranks.
TEST_CASE("a state of any number of ranks loads on any number, under any policy") {
  test::Folder folder;
  const auto all = batches(3, 12);
  for (const How from : all_hows)
    for (const std::int64_t n : numbers_of_ranks(from)) {
      on_any(from, n, 1, [&](Any& trainer, std::int64_t rank) {
        train(trainer, rank, n, std::span(all).first(2));
        trainer.save(folder / "state");
      });
      const StateDict saved = whole_state(folder / "state");
      std::map<std::int64_t, StateDict> continued;  // the states that one rank reaches, with as
                                                    // many microbatches
      for (const std::int64_t m : {1, 2, 3, 4})
        on_any(How::Alone, 1, m, [&](Any& trainer, std::int64_t) {
          trainer.load(folder / "state");
          train(trainer, 0, 1, std::span(all).last(1));
          trainer.save(folder / "one");
          continued[m] = whole_state(folder / "one");
        });
      for (const How to : all_hows) {
        if (to == How::Alone) continue;
        const auto numbers = numbers_of_ranks(to);
        const auto turn = static_cast<std::size_t>(from) + static_cast<std::size_t>(n);
        const std::int64_t m = numbers[turn % numbers.size()];
        on_any(to, m, 1, [&](Any& trainer, std::int64_t rank) {
          train(trainer, rank, m, std::span(all).first(1));  // so that it has a state of its own
          trainer.load(folder / "state");
          CHECK(trainer.steps() == 2);
          trainer.save_full(folder / "loaded");
          train(trainer, rank, m, std::span(all).last(1));
          trainer.save_full(folder / "continued");
        });
        check_same(whole_state(folder / "loaded"), saved);
        check_same(whole_state(folder / "continued"), continued[m]);
      }
    }
}

}  // namespace states
}  // namespace
