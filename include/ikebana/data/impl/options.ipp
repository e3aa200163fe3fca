#pragma once
#include <cstdio>
#include <cstring>
#include <ikebana/data/options.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string text(BatchPosition at) {
  return "epoch " + std::to_string(at.epoch) + ", batch " + std::to_string(at.batch);
}

IKEBANA_INLINE std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", seconds);
  return buffer;
}

/// Throws BadValue for options of workers if there are no workers, as PyTorch does, and for an
/// invalid time limit.
inline void check_workers(const DataLoaderOptions& options) {
  constexpr double longest = 1e9;  // seconds; adding more to a clock's time could overflow
  if (!(options.timeout >= 0 && options.timeout <= longest))
    throw BadValue("DataLoader: timeout is " + seconds_text(options.timeout) +
                   "; it must be a number of seconds from 0, which sets no limit, to 1e9.");
  if (options.num_workers != 0) return;
  if (options.timeout > 0)
    throw BadValue(
        "DataLoader: timeout is set and num_workers is 0. Without workers the loop's own thread "
        "reads, and nothing can end its wait: set num_workers to 1 or more, or leave timeout out.");
  if (options.persistent_workers)
    throw BadValue(
        "DataLoader: persistent_workers is set and num_workers is 0, so that there are no workers "
        "to keep: set num_workers to 1 or more, or leave persistent_workers out.");
}

/// Throws BadValue for options that a sampler excludes, as PyTorch does.
inline void check_sampler(const DataLoaderOptions& options) {
  if (!options.sampler) return;
  if (options.shuffle)
    throw BadValue(
        "DataLoader: sampler and shuffle are set, and both choose the order. Leave shuffle out.");
  if (options.sampler.makes_batches() && (options.batch_size != 1 || options.drop_last))
    throw BadValue(
        "DataLoader: the sampler makes whole batches, and batch_size or drop_last is set. Leave "
        "both out; the sampler has its own.");
}

IKEBANA_INLINE void check(const DataLoaderOptions& options) {
  auto check_min = [](const char* name, std::int64_t value, std::int64_t min) {
    if (value < min)
      throw BadValue("DataLoader: " + std::string(name) + " is " + std::to_string(value) +
                     "; it must be " + std::to_string(min) + " or more.");
  };
  check_min("batch_size", options.batch_size, 1);
  if (options.num_workers != automatic) check_min("num_workers", options.num_workers, 0);
  check_min("prefetch_factor", options.prefetch_factor, 1);
  check_min("num_replicas", options.num_replicas, 1);
  check_min("rank", options.rank, 0);
  if (options.rank >= options.num_replicas)
    throw BadValue("DataLoader: rank is " + std::to_string(options.rank) + " of num_replicas " +
                   std::to_string(options.num_replicas) +
                   "; ranks count from 0, so it must be less.");
  check_workers(options);
  check_sampler(options);
}

}  // namespace ikebana::detail
