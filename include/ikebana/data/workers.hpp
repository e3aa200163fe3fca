#pragma once
// Threads that make batches ahead of a loop and deliver them in order.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/data/options.hpp>
#include <ikebana/posix/process.hpp>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

namespace ikebana::detail {

/// Prefetches at most `prefetched` batches of one epoch. The next epoch is begun when its first
/// batch is asked for. Operators in the threads use one thread each.
template <class Batch>
class Workers {
 public:
  /// Makes the batch at a position; the first argument is the worker's index. Throws early if the
  /// flag is set.
  using Fetch = std::function<Batch(std::size_t, LoaderPosition, const std::atomic<bool>& stop)>;

  Workers(std::size_t workers, std::size_t prefetched, std::int64_t batches_per_epoch, Fetch fetch)
      : batches_per_epoch_(batches_per_epoch),
        fetch_(std::move(fetch)),
        slots_(prefetched),
        next_to_fetch_(batches_per_epoch) {
    try {
      for (std::size_t w = 0; w < workers; ++w) threads_.emplace_back([this, w] { work(w); });
    } catch (...) {
      stop();
      throw;
    }
  }
  /// Waits until the samples that are being read are complete.
  ~Workers() { stop(); }
  /// Destroys workers, except in a forked child: there, waiting for their threads would not end.
  struct Destroy {
    void operator()(Workers* workers) const {
      if (!workers->process_.is_inherited()) delete workers;
    }
  };
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Waits for the batch at a position and returns it, or throws what fetching it threw. If the
  /// position does not follow the previous one, all prefetched batches are dropped. Throws Error in
  /// a forked child, which has none of the threads.
  Batch take(LoaderPosition at) {
    if (process_.is_inherited())
      throw Error(
          "DataLoader: its threads are those of the process that this one was forked from. Make a "
          "loader in this process, or fork before the first batch.");
    std::unique_lock lock(mutex_);
    if (at != next_to_take_) restart(at);
    Slot& slot = slot_of(at);
    batch_fetched_.wait(lock, [&] { return slot.index() != 0; });
    Slot fetched = std::exchange(slot, {});
    if (auto* error = std::get_if<2>(&fetched)) {
      next_to_take_ = no_position;  // so that the next call fetches it again
      next_to_fetch_ = batches_per_epoch_;
      std::rethrow_exception(std::move(*error));
    }
    ++next_to_take_.batch;
    lock.unlock();
    may_fetch_.notify_one();
    return std::get<1>(std::move(fetched));
  }

 private:
  using Slot = std::variant<std::monostate, Batch, std::exception_ptr>;
  static constexpr LoaderPosition no_position{-1, -1};

  Slot& slot_of(LoaderPosition at) {
    return slots_[static_cast<std::size_t>(at.batch) % slots_.size()];
  }
  void restart(LoaderPosition at) {
    ++restarts_;
    next_to_take_ = at;
    next_to_fetch_ = at.batch;
    for (Slot& slot : slots_) slot = {};
    may_fetch_.notify_all();
  }
  bool may_fetch() const {
    return next_to_fetch_ < batches_per_epoch_ &&
           next_to_fetch_ < next_to_take_.batch + static_cast<std::int64_t>(slots_.size());
  }

  void stop() noexcept {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    may_fetch_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void work(std::size_t worker) {
    bridge::OneThread one_thread;
    std::unique_lock lock(mutex_);
    while (true) {
      may_fetch_.wait(lock, [this] { return stop_ || may_fetch(); });
      if (stop_) return;
      LoaderPosition at{next_to_take_.epoch, next_to_fetch_++};
      std::uint64_t restarts = restarts_;
      lock.unlock();
      Slot fetched = try_fetch(worker, at);
      lock.lock();
      if (restarts != restarts_) continue;  // the batch is no longer needed
      slot_of(at) = std::move(fetched);
      batch_fetched_.notify_one();
    }
  }
  /// The batch, or the exception that fetching it threw.
  Slot try_fetch(std::size_t worker, LoaderPosition at) {
    try {
      return Slot(std::in_place_index<1>, fetch_(worker, at, stop_));
    } catch (...) {
      return Slot(std::in_place_index<2>, std::current_exception());
    }
  }

  OwnProcess process_;
  std::int64_t batches_per_epoch_;
  Fetch fetch_;
  std::mutex mutex_;
  std::condition_variable may_fetch_, batch_fetched_;
  std::atomic<bool> stop_ = false;
  std::vector<Slot> slots_;  // batch b of the epoch is in slot b modulo their number
  LoaderPosition next_to_take_ = no_position;
  std::int64_t next_to_fetch_;  // the first batch of next_to_take_.epoch that no worker has begun
  std::uint64_t restarts_ = 0;  // a batch begun before the last restart is dropped
  std::vector<std::thread> threads_;
};

}  // namespace ikebana::detail
