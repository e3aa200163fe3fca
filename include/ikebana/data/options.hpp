#pragma once
// The options of a DataLoader.
#include <cstdint>
#include <ikebana/batch/position.hpp>
#include <ikebana/data/sampler.hpp>
#include <limits>
#include <string>

namespace ikebana {

/// A number that the library chooses by measuring.
inline constexpr std::int64_t automatic = std::numeric_limits<std::int64_t>::min();

/// Options of a DataLoader: PyTorch's names, defaults and order, then `seed` and the options for
/// several ranks.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;  ///< samples per batch; an epoch's last batch may have fewer
  bool shuffle = false;         ///< a new order in each epoch, determined by `seed`
  /// Which samples an epoch has, in which order; without one all of them. It excludes `shuffle`,
  /// and a sampler of whole batches also `batch_size` and `drop_last`.
  Sampler sampler{};
  /// Threads that prefetch; 0: the loop's own thread reads. `automatic`: one at first, and one more
  /// as long as a loop waits for batches and another thread makes it wait less, up to the number of
  /// processors; for a dataset whose `get` is const.
  std::int64_t num_workers = 0;
  bool pin_memory = false;  ///< tensors in pinned memory, from which devices copy faster
  bool drop_last = false;   ///< skip a last batch of fewer samples
  /// Seconds that a loop waits for a batch of its workers before BadSample names the sample that is
  /// still being read; 0: it waits as long as it takes. Needs workers.
  double timeout = 0;
  std::int64_t prefetch_factor = 2;  ///< batches that each worker prefetches
  /// Keep the workers, and their copies of a dataset whose `get` is not const, from epoch to epoch.
  /// At the end of an epoch they read the first batches of the next one, so a loop does not wait
  /// for these, and the dataset must not be changed there. Otherwise workers end with an epoch, and
  /// new ones begin with the next. Needs workers.
  bool persistent_workers = false;
  std::uint64_t seed = 0;  ///< the seed of the order and of SampleRng
  // Several ranks read the same batches, whose samples are divided among them: rank r of N reads
  // the samples from n * r / N to n * (r + 1) / N of a batch of n, in its order. So batch_size is
  // the size of a batch of all ranks together, every sample is read once, and all ranks have as
  // many batches. A rank whose part is empty is given a batch without rows.
  std::int64_t num_replicas = 1;  ///< number of ranks; the other options are the same on all
  std::int64_t rank = 0;          ///< index of this rank
};

/// The former name of the type of a loader's position, which is removed in version 0.2.
using LoaderPosition [[deprecated("use BatchPosition")]] = BatchPosition;

namespace detail {

/// The use of a key. It is hashed into the key, so that the same seed and epoch give independent
/// random numbers to each use.
enum class RngStream : std::uint64_t { Order, Sample, Batch, Generator };

std::string text(BatchPosition at);

std::string seconds_text(double seconds);

/// Throws BadValue for options out of range.
void check(const DataLoaderOptions& options);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/options.ipp>
#endif
