#pragma once
// The options and the position of a DataLoader.
#include <cstdint>
#include <cstdio>
#include <ikebana/error.hpp>
#include <string>

namespace ikebana {

/// Options of a DataLoader: PyTorch's names, defaults and order, then `seed` and what several ranks
/// need.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;   ///< samples per batch; an epoch's last batch may have fewer
  bool shuffle = false;          ///< a new order in each epoch, determined by `seed`
  std::int64_t num_workers = 0;  ///< threads that prefetch; 0: the loop's own thread reads
  bool pin_memory = false;       ///< tensors in pinned memory, from which devices copy faster
  bool drop_last = false;        ///< skip a last batch of fewer samples
  /// Seconds that a loop waits for a batch of its workers before BadSample names the sample that is
  /// still being read; 0: it waits as long as it takes. Needs workers.
  double timeout = 0;
  std::int64_t prefetch_factor = 2;  ///< batches that each worker prefetches
  /// Keep the workers, and their copies of a dataset whose `get` is not const, from epoch to epoch.
  /// Otherwise they end with an epoch, and are made anew for the next. Needs workers.
  bool persistent_workers = false;
  std::uint64_t seed = 0;  ///< of the order and of SampleRng
  // Several ranks read the same batches, whose samples are divided among them: rank r of N reads
  // those from n * r / N to n * (r + 1) / N of a batch of n, in its order. So batch_size is the
  // size of a batch of all ranks together, every sample is read once, and all ranks have as many
  // batches. A rank whose part is empty is given a batch without rows.
  std::int64_t num_replicas = 1;  ///< how many ranks; the other options are the same on all
  std::int64_t rank = 0;          ///< which of them this is
};

/// A loader's position: `batch` batches of `epoch` were delivered, so `batch` is the index of the
/// next.
struct LoaderPosition {
  std::int64_t epoch = 0;  ///< passes over the data that have ended
  std::int64_t batch = 0;  ///< of those of the epoch
  /// Whether both are the same place.
  bool operator==(const LoaderPosition&) const = default;
};

namespace detail {

/// What a key is for. It is hashed into the key, so that the same seed and epoch give independent
/// random numbers to each use.
enum class RngStream : std::uint64_t { Order, Sample, Batch, Generator };

inline std::string text(LoaderPosition at) {
  return "epoch " + std::to_string(at.epoch) + ", batch " + std::to_string(at.batch);
}

inline std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", seconds);
  return buffer;
}

/// Throws BadValue for options of workers where there are none, as PyTorch does, and for a time
/// limit that is none.
inline void check_workers(const DataLoaderOptions& options) {
  constexpr double longest = 1e9;  // seconds; a clock's sums of more could overflow
  if (!(options.timeout >= 0 && options.timeout <= longest))
    throw BadValue("DataLoader: timeout is " + seconds_text(options.timeout) +
                   "; it must be a number of seconds from 0, which sets no limit, to 1e9.");
  if (options.num_workers > 0) return;
  if (options.timeout > 0)
    throw BadValue(
        "DataLoader: timeout is set and num_workers is 0. Without workers the loop's own thread "
        "reads, and nothing can end its wait: set num_workers to 1 or more, or leave timeout out.");
  if (options.persistent_workers)
    throw BadValue(
        "DataLoader: persistent_workers is set and num_workers is 0, so that there are no workers "
        "to keep: set num_workers to 1 or more, or leave persistent_workers out.");
}

/// Throws BadValue for options out of range.
inline void check(const DataLoaderOptions& options) {
  auto check_min = [](const char* name, std::int64_t value, std::int64_t min) {
    if (value < min)
      throw BadValue("DataLoader: " + std::string(name) + " is " + std::to_string(value) +
                     "; it must be " + std::to_string(min) + " or more.");
  };
  check_min("batch_size", options.batch_size, 1);
  check_min("num_workers", options.num_workers, 0);
  check_min("prefetch_factor", options.prefetch_factor, 1);
  check_min("num_replicas", options.num_replicas, 1);
  check_min("rank", options.rank, 0);
  if (options.rank >= options.num_replicas)
    throw BadValue("DataLoader: rank is " + std::to_string(options.rank) + " of num_replicas " +
                   std::to_string(options.num_replicas) +
                   "; ranks count from 0, so it must be less.");
  check_workers(options);
}

}  // namespace detail
}  // namespace ikebana
