// Tests the number of workers that a loader chooses, and what it says it waits for.
#include "sets.hpp"

#include <ikebana/data/worker_tuner.hpp>
#include <thread>

#include <ikebana.hpp>

using namespace ikebana;

namespace test::data::automatic_workers {

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Samples that take their time without a processor, as of a slow disk.
struct Slow {
  double seconds = 0;
  std::int64_t size() const { return 300; }
  at::Tensor get(std::int64_t i) const {
    sleep(seconds);
    return at::scalar_tensor(i, at::kLong);
  }
};
struct NotShared : Slow {
  at::Tensor get(std::int64_t i) { return Slow::get(i); }
};

/// Tells a tuner of a loop that computes for `computing` milliseconds after each batch, while the
/// workers together make one each `making(workers)` ms. Returns the number of workers after each
/// window of 16 batches.
template <class Making>
std::vector<std::size_t> workers_of(std::size_t most, int windows, int computing,
                                    const Making& making) {
  using std::chrono::milliseconds;
  ikebana::detail::WorkerTuner tuner({1, most});
  auto now = ikebana::detail::WorkerTuner::Clock::time_point();
  std::vector<std::size_t> counts;
  tuner.take(now);
  for (int w = 0; w < windows; ++w) {
    for (int i = 0; i < 16; ++i) {
      const int waits = making(int(tuner.workers())) - computing;
      if (waits > 0) tuner.note_wait(milliseconds(waits));
      now += milliseconds(computing + std::max(0, waits));
      tuner.take(now);
    }
    counts.push_back(tuner.workers());
  }
  return counts;
}

TEST_CASE("automatic workers: one more while a loop waits for them and they help") {
  using Counts = std::vector<std::size_t>;
  const auto four_keep_up = [](int n) { return 350 / n; };
  CHECK(workers_of(8, 6, 100, four_keep_up) == Counts{2, 3, 4, 4, 4, 4});
  CHECK(workers_of(2, 4, 100, four_keep_up) == Counts{2, 2, 2, 2});
  const auto one_keeps_up = [](int) { return 99; };
  CHECK(workers_of(8, 3, 100, one_keeps_up) == Counts{1, 1, 1});
  // A disk reads no faster for more: the second worker is taken back, and none is tried again.
  const auto disk = [](int) { return 400; };
  CHECK(workers_of(8, 5, 100, disk) == Counts{2, 1, 1, 1, 1});
}

TEST_CASE("automatic workers: batches are those of one, and the loader says what it waits for") {
  const DataLoaderOptions options{.batch_size = 3, .shuffle = true, .num_workers = automatic};
  DataLoader plain(Slow(), {.batch_size = 3, .shuffle = true});
  DataLoader loader(Slow{1e-3}, options);
  CHECK(loader.num_workers() == 1);
  CHECK(contains(loader.describe(),
                 "300 samples, 100 batches per epoch of 3, shuffled; next is "
                 "epoch 0, batch 0\n  1 worker (automatic), each up to 2 "
                 "batches ahead"));
  std::size_t most = 1;
  std::string described;
  auto expected = plain.begin();
  for (auto& batch : loader) {
    CHECK(same_bits(batch, *expected));
    ++expected;
    most = std::max(most, std::size_t(loader.num_workers()));
    if (loader.position().batch == 90) described = loader.describe();
  }
  if (std::thread::hardware_concurrency() > 1) CHECK(most > 1);
  CHECK(contains(described, "a worker makes a batch in "));
  CHECK(contains(described, "of 90 batches, "));
  CHECK(contains(plain.describe(), "no workers: the loop's own thread makes each batch"));
  CHECK(contains(message_of<BadValue>([] { DataLoader(NotShared(), {.num_workers = automatic}); }),
                 "num_workers is automatic, and the dataset's `get` is not const"));
  CHECK(contains(message_of<BadValue>([] { DataLoader(Slow(), {.num_workers = -1}); }),
                 "num_workers is -1"));
}

}  // namespace test::data::automatic_workers
