#pragma once
// Threads that make batches ahead of a loop, and hand them over in order.
#include <condition_variable>
#include <functional>
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/data/options.hpp>
#include <mutex>
#include <stop_token>
#include <thread>
#include <variant>
#include <vector>

namespace ikebana::detail {

/// At most `ahead` batches of one epoch are being made or ready; the next epoch's are begun when
/// the first of them is asked for. Operators in the threads use no other thread.
template <class Batch>
class Workers {
 public:
  /// Makes the batch at a position, in the worker of that number; ends early where it is stopped.
  using Make = std::function<Batch(std::size_t, LoaderPosition, const std::stop_token&)>;

  Workers(std::size_t workers, std::size_t ahead, std::int64_t batches, Make make)
      : batches_(batches), make_(std::move(make)), slots_(ahead), begun_(batches) {
    for (std::size_t w = 0; w < workers; ++w)
      threads_.emplace_back([this, w](const std::stop_token& stop) { work(w, stop); });
  }
  /// Waits for the samples that are being read.
  ~Workers() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Waits for the batch at a position, or throws what making it threw. Where it does not follow
  /// the one before, what was made ahead is dropped.
  Batch take(LoaderPosition at) {
    std::unique_lock lock(mutex_);
    if (at != next_) start(at);
    Slot& slot = slot_of(at);
    made_.wait(lock, [&] { return slot.index() != 0; });
    Slot made = std::exchange(slot, {});
    if (auto* error = std::get_if<2>(&made)) {
      next_ = nowhere;  // whoever asks again has it made again
      begun_ = batches_;
      std::rethrow_exception(std::move(*error));
    }
    ++next_.batch;
    lock.unlock();
    room_.notify_one();
    return std::get<1>(std::move(made));
  }

 private:
  using Slot = std::variant<std::monostate, Batch, std::exception_ptr>;
  static constexpr LoaderPosition nowhere{-1, -1};

  Slot& slot_of(LoaderPosition at) {
    return slots_[static_cast<std::size_t>(at.batch) % slots_.size()];
  }
  void start(LoaderPosition at) {
    ++run_;
    next_ = at;
    begun_ = at.batch;
    for (Slot& slot : slots_) slot = {};
    room_.notify_all();
  }
  bool may_begin() const {
    return begun_ < batches_ && begun_ < next_.batch + static_cast<std::int64_t>(slots_.size());
  }

  void work(std::size_t worker, const std::stop_token& stop) {
    bridge::OneThread one_thread;
    std::unique_lock lock(mutex_);
    while (room_.wait(lock, stop, [this] { return may_begin(); }) && !stop.stop_requested()) {
      LoaderPosition at{next_.epoch, begun_++};
      std::uint64_t run = run_;
      lock.unlock();
      Slot made = attempt(worker, at, stop);
      lock.lock();
      if (run != run_) continue;  // nobody waits for it any more
      slot_of(at) = std::move(made);
      made_.notify_one();
    }
  }
  Slot attempt(std::size_t worker, LoaderPosition at, const std::stop_token& stop) {
    try {
      return Slot(std::in_place_index<1>, make_(worker, at, stop));
    } catch (...) {
      return Slot(std::in_place_index<2>, std::current_exception());
    }
  }

  std::int64_t batches_;
  Make make_;
  std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable made_;
  std::vector<Slot> slots_;
  LoaderPosition next_ = nowhere;  // the batch that the loop takes next
  std::int64_t begun_;             // batches of next_.epoch before this one are begun
  std::uint64_t run_ = 0;          // counts starts: what an earlier one began is dropped
  std::vector<std::jthread> threads_;
};

}  // namespace ikebana::detail
