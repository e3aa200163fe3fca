#pragma once
// How a loader goes through its dataset, and where it stands.
#include <cstdint>
#include <ikebana/error.hpp>
#include <string>

namespace ikebana {

/// PyTorch's names and defaults, and `seed`.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;       ///< samples a batch; the last of an epoch may have fewer
  bool shuffle = false;              ///< each epoch in an order of its own, which `seed` determines
  std::uint64_t seed = 0;            ///< of the order and of what datasets draw
  std::int64_t num_workers = 0;      ///< threads that read ahead; 0: the loop's own thread reads
  std::int64_t prefetch_factor = 2;  ///< batches that each worker may have ready
  bool drop_last = false;            ///< leave out a last batch of fewer samples
};

/// Where a loader stands: `batch` batches of `epoch` were delivered, and the next is that one.
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

/// Throws BadValue for options that cannot be.
inline void check(const DataLoaderOptions& options) {
  auto min = [](const char* name, std::int64_t value, std::int64_t smallest) {
    if (value < smallest)
      throw BadValue("DataLoader: " + std::string(name) + " is " + std::to_string(value) +
                     "; give " + std::to_string(smallest) + " or more.");
  };
  min("batch_size", options.batch_size, 1);
  min("num_workers", options.num_workers, 0);
  min("prefetch_factor", options.prefetch_factor, 1);
}

}  // namespace detail
}  // namespace ikebana
