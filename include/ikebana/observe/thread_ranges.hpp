#pragma once
// Collects the ranges of threads that LibTorch's profiler does not record.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace ikebana::detail {

/// A range that ended on another thread than the profiler's.
struct ThreadRange {
  std::string name;
  std::int64_t start_ns = 0, end_ns = 0;  ///< since the epoch
  std::uint64_t thread = 0;               ///< the number of at::RecordFunction::currentThreadId
  std::int64_t system_thread = 0;         ///< the number by which the system knows the thread
};

/// The ranges of other threads while a profiler records. LibTorch's profiler records the thread
/// that starts it and the threads of its backward; a thread that would join it for the time of a
/// range could still write when the profiler ends. So such ranges are kept here, under a lock,
/// which threads of a DataLoader take a few times per batch. There is one for the process, with
/// default visibility, so that plugins share it.
class __attribute__((visibility("default"))) ThreadRanges {
 public:
  static ThreadRanges& get() {
    static auto& ranges = *new ThreadRanges;  // a thread may end after statics were destroyed
    return ranges;
  }

  bool is_open() const { return is_open_.load(std::memory_order_relaxed); }
  void open();
  void add(ThreadRange range);
  /// Ends the recording and returns the ranges that ended while it was open.
  std::vector<ThreadRange> close();

 private:
  /// Beyond this number a range is dropped: it bounds the memory.
  static constexpr std::size_t most = 1 << 20;

  std::atomic<bool> is_open_ = false;
  std::mutex mutex_;
  std::vector<ThreadRange> ranges_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/thread_ranges.ipp>
#endif
