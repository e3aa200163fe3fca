#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/streams/stream_reader.hpp>
#include <string>

namespace ikebana::detail {

IKEBANA_INLINE void check(const StreamOptions& options) {
  const auto check_min = [](const char* name, std::int64_t value, std::int64_t min) {
    if (value < min)
      throw BadValue("StreamLoader: " + std::string(name) + " is " + std::to_string(value) +
                     "; it must be " + std::to_string(min) + " or more.");
  };
  check_min("batch_size", options.batch_size, 1);
  check_min("shuffle_buffer", options.shuffle_buffer, 0);
  check_min("num_workers", options.num_workers, 0);
  check_min("prefetch_factor", options.prefetch_factor, 1);
  check_min("num_replicas", options.num_replicas, 1);
  check_min("rank", options.rank, 0);
  if (options.rank >= options.num_replicas)
    throw BadValue("StreamLoader: rank is " + std::to_string(options.rank) + " of num_replicas " +
                   std::to_string(options.num_replicas) +
                   "; ranks count from 0, so it must be less.");
}

IKEBANA_INLINE void throw_stream_stopped() {
  throw Error(
      "StreamLoader: the stream stopped before this batch, because reading it threw or the loader "
      "is being destroyed. Begin a new loop.");
}

}  // namespace ikebana::detail
