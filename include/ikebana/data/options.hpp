#pragma once
// The options and the position of a DataLoader.
#include <cstdint>
#include <ikebana/error.hpp>
#include <string>

namespace ikebana {

/// Options of a DataLoader: PyTorch's names and defaults, and `seed`.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;       ///< samples per batch; an epoch's last batch may have fewer
  bool shuffle = false;              ///< a new order in each epoch, determined by `seed`
  std::uint64_t seed = 0;            ///< of the order and of SampleRng
  std::int64_t num_workers = 0;      ///< threads that prefetch; 0: the loop's own thread reads
  std::int64_t prefetch_factor = 2;  ///< batches that each worker prefetches
  bool drop_last = false;            ///< skip a last batch of fewer samples
  bool pin_memory = false;           ///< tensors in pinned memory, from which devices copy faster
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
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  bool operator==(const LoaderPosition&) const = default;
};

namespace detail {

/// What a key is for. It is hashed into the key, so that the same seed and epoch give independent
/// random numbers to each use.
enum class RngStream : std::uint64_t { Order, Sample, Batch, Generator };

inline std::string text(LoaderPosition at) {
  return "epoch " + std::to_string(at.epoch) + ", batch " + std::to_string(at.batch);
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
                   std::to_string(options.num_replicas) + "; ranks count from 0.");
}

}  // namespace detail
}  // namespace ikebana
