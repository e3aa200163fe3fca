#pragma once
// Defines the state of a thread that reads a batch. The thread of the loop reads it and may stop
// the thread.
#include <atomic>
#include <cstdint>

namespace ikebana::detail {

struct Reading {
  static constexpr std::int64_t none = -1;
  std::atomic<bool> stop =
      false;  ///< if set, the thread throws soon, because the loader is destroyed
  std::atomic<std::int64_t> sample = none;  ///< the index that `get` is reading

  void begin(std::int64_t index) { sample.store(index, std::memory_order_relaxed); }
};

}  // namespace ikebana::detail
