#pragma once
// Measures what a loop waits for, and chooses the number of workers by it.
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ikebana::detail {

/// The numbers of workers that a loader begins with, and may have.
struct WorkerCounts {
  std::size_t first, most;
};

/// Times and counts since the workers started.
struct WorkerTimes {
  std::int64_t taken = 0, waited_for = 0, fetched = 0;  ///< batches
  double waiting = 0;   ///< seconds in which a loop waited for a batch
  double fetching = 0;  ///< seconds in which workers made batches, all workers together
  double looping = 0;   ///< seconds from the first batch that was taken to the last
};

/// Chooses the number of workers. After every 16 batches of a loop that waited for more than 2 % of
/// its time it asks for one more, and takes the last one back for good if the loop is not 5 %
/// faster with it. Needs the lock of the workers.
class WorkerTuner {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WorkerTuner(WorkerCounts counts) : workers_(counts.first), most_(counts.most) {}

  std::size_t workers() const { return workers_; }
  const WorkerTimes& times() const { return times_; }

  /// RAII: a loop asks for a batch, which may be there.
  class Wait {
   public:
    Wait(WorkerTuner& tuner, bool is_there)
        : tuner_(is_there ? nullptr : &tuner), begin_(is_there ? Clock::time_point() : now()) {}
    ~Wait() {
      if (tuner_) tuner_->note_wait(now() - begin_);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    static Clock::time_point now() { return Clock::now(); }

    WorkerTuner* tuner_;
    Clock::time_point begin_;
  };

  void note_wait(Clock::duration time) {
    const double seconds = std::chrono::duration<double>(time).count();
    times_.waiting += seconds;
    window_waiting_ += seconds;
    ++times_.waited_for;
  }
  void note_fetch(Clock::duration time) {
    times_.fetching += std::chrono::duration<double>(time).count();
    ++times_.fetched;
  }
  /// Notes that a loop took a batch at this time. Returns whether the number of workers was
  /// changed.
  bool take(Clock::time_point now = Clock::now());
  /// Notes that the system refused the thread that was asked for last.
  void give_up() {
    --workers_;
    is_settled_ = true;
  }

 private:
  static constexpr std::int64_t window = 16;  // batches

  std::size_t workers_, most_;
  WorkerTimes times_;
  Clock::time_point first_, window_begin_;
  double window_waiting_ = 0;
  double rate_before_ = 0;  // batches per second before a worker was added; 0: none was
  bool is_settled_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/worker_tuner.ipp>
#endif
