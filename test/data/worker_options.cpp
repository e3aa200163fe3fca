// Tests options of workers: a time limit for a batch, and whether they stay from epoch to epoch.
#include "sets.hpp"

#include <functional>
#include <mutex>
#include <set>
#include <thread>

using namespace ikebana;

namespace test::data::worker_options {

/// A `get` that waits, as of a file on a drive that does not answer, until it is let go.
struct Hung {
  std::atomic<std::int64_t> sample = 9;  // which waits; no sample has index -1
  std::atomic<int> inside = 0, destroyed = 0;
};
struct Waiting : All {
  std::shared_ptr<Hung> hung = std::make_shared<Hung>();
  Pair get(std::int64_t i) const {
    ++hung->inside;
    while (hung->sample == i) std::this_thread::sleep_for(std::chrono::microseconds(200));
    --hung->inside;
    return {input[i], target[i]};
  }
  // Only the dataset that a loader holds has `hung`; moved ones do not.
  Waiting() = default;
  Waiting(const Waiting&) = default;
  Waiting(Waiting&&) = default;
  ~Waiting() {
    if (hung) ++hung->destroyed;
  }
};
/// Gives whole batches, and waits for the second.
struct WaitingBatch : All {
  std::shared_ptr<Hung> hung = std::make_shared<Hung>();
  Pair get_batch(const at::Tensor& i) const {
    while (hung->sample == i[0].item<std::int64_t>())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    return {input.index_select(0, i), target.index_select(0, i)};
  }
};
void until(const std::function<bool()>& holds) {
  for (int i = 0; i < 20000 && !holds(); ++i)
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  CHECK(holds());
}
template <class Loader>
std::string late(Loader& loader) {
  return message_of<BadSample>([&] { epoch(loader); });
}

TEST_CASE("workers: a batch that takes longer than the timeout is an error that names its sample") {
  DataLoader intact(Structs(), {.batch_size = 4});
  const Batches expected = epoch(intact);
  for (std::int64_t workers : {1, 3}) {
    Waiting dataset;
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers, .timeout = 0.05});
    CHECK(same(next(loader, 2), {expected[0], expected[1]}));
    std::string message = late(loader);
    for (auto part : {"timeout of 0.05 s", "epoch 0, batch 2", "get(9) has not returned",
                      "seek({0, 3})", "tries it again"})
      CHECK(contains(message, part));
    CHECK(loader.position() == BatchPosition{0, 2});
    if (workers == 1) {  // its only worker is within get(9), whatever is asked for
      loader.seek({0, 3});
      CHECK(contains(late(loader), "get(9), of epoch 0, batch 2, keeps a worker and has not"));
    } else {
      loader.seek({0, 3});
      CHECK(same(epoch(loader), {expected.begin() + 3, expected.end()}));
    }
    dataset.hung->sample = -1;
    until([&] { return dataset.hung->inside == 0; });
    loader.seek({0, 2});
    CHECK(same(epoch(loader), {expected.begin() + 2, expected.end()}));
  }
}

TEST_CASE("workers: a timeout counts for a batch that get_batch gives, and names its samples") {
  WaitingBatch dataset;
  dataset.hung->sample = 4;
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 2, .timeout = 0.05});
  CHECK(contains(late(loader), "reading the samples 4, 5, 6, 7 has not returned"));
  dataset.hung->sample = -1;
}

TEST_CASE("workers: a timeout that is long enough changes no bit") {
  DataLoader intact(Structs(), {.batch_size = 4});
  for (bool persistent : {false, true}) {
    DataLoaderOptions options{.batch_size = 4, .num_workers = 2, .timeout = 1e9};
    options.persistent_workers = persistent;
    DataLoader loader(Structs(), options);
    CHECK(same(next(loader, 20), next(intact, 20)));
    intact.seek({0, 0});
  }
}

TEST_CASE("workers: a loader whose sample never returns is destroyed, and its rest once it has") {
  auto hung = std::make_shared<Hung>();
  {
    Waiting dataset;
    dataset.hung = hung;
    DataLoader loader(std::move(dataset), {.batch_size = 4, .num_workers = 2, .timeout = 0.05});
    CHECK(contains(late(loader), "get(9) has not returned"));
  }
  CHECK(hung->inside == 1);  // the thread that reads it is still there, and what it reads, too
  CHECK(hung->destroyed == 0);
  hung->sample = -1;
  until([&] { return hung->destroyed == 1; });
}

TEST_CASE("workers: a pointer to a dataset is read no more when its loader has been destroyed") {
  Waiting dataset;
  std::jthread later;
  {
    DataLoader loader(&dataset, {.batch_size = 4, .num_workers = 1, .timeout = 0.02});
    CHECK(contains(late(loader), "get(9)"));
    later = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      dataset.hung->sample = -1;
    });
  }
  CHECK(dataset.hung->inside == 0);
}

/// Its `get` is not const, so workers have copies; a sample tells which thread read which copy.
struct Counted : All {
  struct Seen {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::atomic<int> copies = 0, arrived = 0, read = 0;
  };
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
  double scale = 1;
  Counted() = default;
  Counted(const Counted& other) : All(other), seen(other.seen), scale(other.scale) {
    ++seen->copies;
  }
  Pair get(std::int64_t i) {
    if (i < 2 && seen->arrived < 4) {  // in two epochs two workers read these, at the same time
      const int both = (seen->arrived++ / 2 + 1) * 2;
      while (seen->arrived < both) std::this_thread::yield();
    }
    std::lock_guard lock(seen->mutex);
    seen->threads.insert(std::this_thread::get_id());
    Pair pair{input[i] * scale, target[i]};
    ++seen->read;
    return pair;
  }
};

TEST_CASE("workers: persistent workers and their copies stay, others see a changed dataset") {
  for (bool persistent : {false, true}) {
    Counted dataset;
    DataLoaderOptions options{.batch_size = 1, .num_workers = 2, .prefetch_factor = 1};
    options.persistent_workers = persistent;
    DataLoader loader(&dataset, options);
    const Batches first = epoch(loader);
    CHECK(dataset.seen->copies == 1);
    const auto threads = dataset.seen->threads;
    CHECK(threads.size() == 2);
    const int read = static_cast<int>(first.size()) + (persistent ? 2 : 0);
    until([&] { return dataset.seen->read == read; });  // persistent ones have read on
    dataset.scale = 2;                                  // between two epochs, when no thread reads
    const Batches second = epoch(loader);
    CHECK(dataset.seen->copies == (persistent ? 1 : 2));
    std::size_t changed = 0;
    for (std::size_t i = 0; i < first.size(); ++i)
      changed += same_bits(second[i][0], first[i][0] * 2) ? 1 : 0;
    // Persistent workers had read two samples, and one of them has a copy of the first epoch's.
    if (persistent) CHECK(changed <= first.size() - 2);
    else CHECK(changed == first.size());
    if (persistent) CHECK(dataset.seen->threads == threads);
  }
}

TEST_CASE(
    "workers: persistent ones read on at the end of an epoch, to the bit, as often as asked") {
  DataLoader alone(Structs(), {.batch_size = 4, .shuffle = true, .seed = 5});
  for (const std::int64_t workers : {1, 2, 3, 7}) {
    DataLoaderOptions options{.batch_size = 4, .shuffle = true, .num_workers = workers};
    options.persistent_workers = true, options.seed = 5;
    DataLoader loader(Structs(), options);
    alone.seek({0, 0});
    for (int e = 0; e < 5; ++e) CHECK(same(epoch(loader), epoch(alone)));
    loader.seek({1, 2}), alone.seek({1, 2});  // drops what was read ahead
    for (int e = 0; e < 2; ++e) CHECK(same(epoch(loader), epoch(alone)));
    CHECK(loader.position() == BatchPosition{3, 0});
  }
}

TEST_CASE("workers: an evaluation within a loop ends no loop, persistent or not") {
  DataLoader alone(Structs(), {.batch_size = 4});
  for (bool persistent : {false, true}) {
    DataLoaderOptions options{.batch_size = 4, .num_workers = 2};
    options.persistent_workers = persistent;
    DataLoader loader(Structs(), options);
    Batches seen;
    for (auto& batch : loader) {
      seen.push_back(flat(batch));
      if (seen.size() == 2) loader.visit([](auto&) {});
    }
    CHECK(same(seen, next(alone, 6)));
  }
}

}  // namespace test::data::worker_options
