// Tests the threads of a loader: their number, how far they prefetch, what they share, and how they
// end.
#include "sets.hpp"

#include <ATen/autocast_mode.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ikebana/bridge/one_thread.hpp>
#include <thread>

using namespace ikebana;

namespace test::data::workers {

/// Counts the calls of `get`.
struct Observed {
  std::atomic<std::int64_t> begun = 0, most_threads = 0;
  std::atomic<std::int64_t> hold_from = 1000;  // `get` waits for samples from this one on
  std::atomic<bool> gradients = false, autocast = false;
};
struct Watched : All {
  std::shared_ptr<Observed> seen = std::make_shared<Observed>();
  Pair get(std::int64_t i) const {
    ++seen->begun;
    if (at::get_num_threads() > seen->most_threads) seen->most_threads = at::get_num_threads();
    if (at::GradMode::is_enabled()) seen->gradients = true;
    if (at::ones({2, 2}).mm(at::ones({2, 2})).scalar_type() != at::kFloat) seen->autocast = true;
    while (i >= seen->hold_from) std::this_thread::yield();
    return {input[i], target[i]};
  }
};
/// Takes longer for some samples, so that batches are complete in another order.
struct Slow : All {
  Pair get(std::int64_t i) const {
    std::this_thread::sleep_for(std::chrono::microseconds(i % 5 == 0 ? 3000 : 10));
    return {input[i], target[i]};
  }
};
/// `get` is not const, as for a file with a position, so only one thread at a time may call it.
struct Stateful : All {
  std::shared_ptr<std::atomic<int>> copies = std::make_shared<std::atomic<int>>(0);
  std::atomic<int> users = 0;
  Stateful() = default;
  Stateful(const Stateful& other) : All(other), copies(other.copies) { ++*copies; }
  Pair get(std::int64_t i) {
    if (++users > 1) throw std::logic_error("two threads");
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    --users;
    return {input[i], target[i]};
  }
};

/// Waits until `count` no longer changes, and returns it.
template <class Count>
std::int64_t settled(const Count& count) {
  for (std::int64_t before = -1, calm = 0;;) {
    std::int64_t now = count;
    calm = now == before ? calm + 1 : 0;
    if (calm == 50) return now;
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_CASE("workers: batches are delivered in order, however long each takes") {
  DataLoader alone(Structs(), {.batch_size = 2});
  DataLoader loader(Slow(), {.batch_size = 2, .num_workers = 4, .prefetch_factor = 3});
  CHECK(same(next(loader, 24), next(alone, 24)));
}

TEST_CASE("workers: no more batches are begun than may be prefetched, none before the first loop") {
  Watched dataset;
  DataLoader loader(dataset, {.batch_size = 1, .num_workers = 2, .prefetch_factor = 3});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(dataset.seen->begun == 0);
  std::int64_t delivered = 0;
  for ([[maybe_unused]] auto& batch : loader)
    CHECK(settled(dataset.seen->begun) == std::min<std::int64_t>(23, ++delivered + 6));
  CHECK(settled(dataset.seen->begun) == 23);  // the next epoch is not begun
}

TEST_CASE("workers: destroying a loader waits for the samples being read, and for no others") {
  for (std::int64_t workers : {1, 3}) {
    Watched dataset;
    Observed& seen = *dataset.seen;
    std::jthread later;
    seen.hold_from = 7;
    {
      DataLoader loader(dataset, {.batch_size = 5, .num_workers = workers});
      CHECK(next(loader, 1).size() == 1);
      CHECK(settled(seen.begun) == (workers == 1 ? 5 + 3 : 5 + 3 + 1 + 1));
      later = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        seen.hold_from = 1000;
      });
    }
    CHECK(seen.hold_from == 1000);
    CHECK(seen.begun == (workers == 1 ? 8 : 10));
  }
}

TEST_CASE("workers: a batch that was begun before a seek is not delivered after it") {
  Watched dataset;
  Observed& seen = *dataset.seen;
  seen.hold_from = 9;
  DataLoader alone(Structs(), {.batch_size = 1});
  DataLoader loader(dataset, {.batch_size = 1, .num_workers = 2});
  loader.seek({0, 8});
  CHECK(next(loader, 1).size() == 1);
  CHECK(settled(seen.begun) == 3);
  loader.seek({0, 5}), alone.seek({0, 5});  // batches 9 and 5 have the same one of four slots
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    seen.hold_from = 1000;
  });
  CHECK(same(next(loader, 8), next(alone, 8)));
}

TEST_CASE("workers: a loader can be destroyed after any number of batches") {
  for (std::int64_t workers : {1, 3})
    for (std::size_t taken : {0, 1, 5, 6, 8}) {
      DataLoader loader(Slow(), {.batch_size = 4, .num_workers = workers});
      CHECK(next(loader, taken).size() == taken);
    }
}

TEST_CASE("workers: a forked child refuses a loader whose threads it lacks, and can destroy it") {
  std::optional<DataLoader<Slow>> loader(std::in_place, Slow(),
                                         DataLoaderOptions{.batch_size = 2, .num_workers = 2});
  next(*loader, 3);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const auto message = message_of<Error>([&] { next(*loader, 1); });
    loader.reset();
    ::_exit(contains(message, "Make a loader in this process") ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  DataLoader alone(Structs(), {.batch_size = 2});
  next(alone, 3);
  CHECK(same(next(*loader, 20), next(alone, 20)));
}

TEST_CASE("workers: a dataset whose get is const is shared, otherwise each worker has a copy") {
  Watched shared;
  DataLoader one(shared, {.batch_size = 2, .num_workers = 3});
  epoch(one);
  CHECK(shared.seen.use_count() == 2);
  Stateful dataset;
  DataLoader loader(&dataset, {.batch_size = 2, .num_workers = 3});
  DataLoader alone(Structs(), {.batch_size = 2});
  CHECK(same(next(loader, 24), next(alone, 24)));
  CHECK(*dataset.copies == 2 * 2);  // in each of two epochs; the first worker uses the original
}

TEST_CASE("workers: operators in get use one thread, and other threads keep their number") {
  int before = at::get_num_threads();
  at::set_num_threads(3);
  for (std::int64_t workers : {0, 1, 3}) {
    Watched dataset;
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers});
    for ([[maybe_unused]] auto& batch : loader) CHECK(at::get_num_threads() == 3);
    CHECK(dataset.seen->most_threads == 1);
    int later = 0;
    std::thread([&] { later = at::get_num_threads(); }).join();
    CHECK(later == 3);
  }
  at::set_num_threads(before);
}

TEST_CASE("workers: gradients, autocast and inference mode are off in get, and restored after it") {
  for (std::int64_t workers : {0, 1}) {
    Watched dataset;
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers});
    at::autocast::set_autocast_enabled(at::kCPU, true);
    for ([[maybe_unused]] auto& batch : loader) {
      CHECK(at::GradMode::is_enabled());
      CHECK((at::ones({2, 2}).mm(at::ones({2, 2})).scalar_type() == at::kBFloat16));
      CHECK_FALSE(batch.input.requires_grad());
    }
    at::autocast::set_autocast_enabled(at::kCPU, false);
    CHECK_FALSE(dataset.seen->gradients);
    CHECK_FALSE(dataset.seen->autocast);
    c10::InferenceMode inference;
    for (auto& batch : loader) CHECK_FALSE(batch.input.is_inference());
    CHECK(c10::InferenceMode::is_enabled());
  }
}

}  // namespace test::data::workers
