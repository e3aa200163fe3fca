#pragma once
// Measures how long a loop waits for its loader, if an observer of the process asks for it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace ikebana::detail {

/// The number of observers that ask how long loops wait.
inline std::atomic<int> batch_wait_observers = 0;
/// The seconds that this thread has waited for batches while an observer asked.
inline thread_local constinit double batch_wait_seconds = 0;

/// An observer that asks how long loops wait.
class BatchWaits {
 public:
  BatchWaits() { batch_wait_observers.fetch_add(1, std::memory_order_relaxed); }
  ~BatchWaits() { batch_wait_observers.fetch_sub(1, std::memory_order_relaxed); }
  BatchWaits(const BatchWaits&) = delete;
  BatchWaits& operator=(const BatchWaits&) = delete;

  /// Returns the seconds that this thread has waited since the last call; 0 if another thread made
  /// that, and has waited for longer.
  double take() {
    const double before = std::exchange(seen_, batch_wait_seconds);
    return std::max(0.0, seen_ - before);
  }

 private:
  double seen_ = batch_wait_seconds;
};

/// RAII: this thread waits for the next batch. Of nested scopes the outermost counts. Costs one
/// comparison if no observer asks.
class BatchWait {
 public:
  BatchWait() : counts_(batch_wait_observers.load(std::memory_order_relaxed) > 0) {
    if (counts_) before_ = batch_wait_seconds, begin_ = Clock::now();
  }
  ~BatchWait() {
    if (counts_)
      batch_wait_seconds = before_ + std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  BatchWait(const BatchWait&) = delete;
  BatchWait& operator=(const BatchWait&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  bool counts_;
  double before_ = 0;
  Clock::time_point begin_;
};

}  // namespace ikebana::detail
