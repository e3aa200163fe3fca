#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/data/loader_core.hpp>
#include <ikebana/detail/form.hpp>
#include <iomanip>
#include <thread>

namespace ikebana::detail {

IKEBANA_INLINE bool pins_memory(bool asked_for) {
  if (!asked_for) return false;
  const auto device = at::getAccelerator();
  if (device && at::globalContext().getAcceleratorHooksInterface(*device).isAvailable())
    return true;
  TORCH_WARN(
      "DataLoader: pin_memory is true, and there is no device: memory is not pinned. "
      "Leave pin_memory out.");
  return false;
}

IKEBANA_INLINE WorkerCounts worker_counts(std::int64_t num_workers) {
  if (num_workers != automatic)
    return {static_cast<std::size_t>(num_workers), static_cast<std::size_t>(num_workers)};
  return {1, std::max<std::size_t>(1, std::thread::hardware_concurrency())};
}

/// Returns what loops have waited for, and how many workers would keep up.
inline std::string waits_text(std::int64_t workers, const WorkerTimes& times) {
  const auto per = [](double seconds, std::int64_t n) {
    return c10::str(std::setprecision(3), 1e3 * seconds / static_cast<double>(n), " ms");
  };
  std::string text = "\n  a worker makes a batch in " + per(times.fetching, times.fetched) +
                     ", the loop takes one each " + per(times.looping, times.taken - 1) +
                     ", and waited for " + std::to_string(times.waited_for) + " of " +
                     std::to_string(times.taken) + " batches, " + per(times.waiting, times.taken) +
                     " on average";
  const double computing = times.looping - times.waiting;
  if (times.waiting < 0.02 * times.looping || computing <= 0) return text;
  const double needed = times.fetching / static_cast<double>(times.fetched) /
                        (computing / static_cast<double>(times.taken - 1));
  const auto more = static_cast<std::int64_t>(std::ceil(needed));
  if (more > workers) text += "; " + std::to_string(more) + " workers would keep up with it";
  return text;
}

IKEBANA_INLINE std::string describe_loader(const DataLoaderOptions& options,
                                           const SampleOrder& order, BatchPosition at,
                                           std::int64_t workers, const WorkerTimes& times) {
  const bool by_batches = options.sampler && options.sampler.makes_batches();
  std::string text = "DataLoader: " + std::to_string(order.samples()) + " samples, " +
                     std::to_string(order.batches()) + " batches per epoch" +
                     (by_batches ? "" : " of " + std::to_string(options.batch_size)) +
                     (options.sampler   ? ", chosen by a sampler"
                      : options.shuffle ? ", shuffled"
                                        : ", in order") +
                     (options.drop_last ? ", without a smaller last one" : "");
  if (options.num_replicas > 1)
    text +=
        ", rank " + std::to_string(options.rank) + " of " + std::to_string(options.num_replicas);
  text += "; next is " + detail::text(at);
  if (workers == 0) return text + "\n  no workers: the loop's own thread makes each batch";
  text += "\n  " + std::to_string(workers) + (workers == 1 ? " worker" : " workers") +
          (options.num_workers == automatic ? " (automatic)" : "") + ", each up to " +
          std::to_string(options.prefetch_factor) + " batches ahead";
  if (times.taken < 2 || times.fetched == 0) return text;
  return text + waits_text(workers, times);
}

}  // namespace ikebana::detail
