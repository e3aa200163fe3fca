#pragma once
// Defines threads that make batches ahead of a loop and deliver them in order.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/data/options.hpp>
#include <ikebana/data/worker_tuner.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/process.hpp>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace ikebana::detail {

/// The state of a thread that reads a batch. The thread of the loop reads it and may stop the
/// thread.
struct Reading {
  static constexpr std::int64_t none = -1;
  std::atomic<bool> stop =
      false;  ///< if set, the thread throws soon, because the loader is destroyed
  std::atomic<std::int64_t> sample = none;  ///< the index that `get` is reading

  void begin(std::int64_t index) { sample.store(index, std::memory_order_relaxed); }
};

/// Each worker prefetches at most `prefetch_factor` batches. With `reads_on` they go on into the
/// next epoch; without it, an epoch begins when its first batch is asked for. Operators in the
/// threads use one thread each.
template <class Batch>
class Workers {
 public:
  /// Makes the batch at a position. The first argument is the worker's index. Throws soon if `stop`
  /// is set.
  using Fetch = std::function<Batch(std::size_t, BatchPosition, Reading&)>;

  /// Starts `workers.first` threads, and more, up to `workers.most`, while a loop waits for
  /// batches and more of them help.
  Workers(WorkerCounts workers, std::size_t prefetch_factor, std::int64_t batches_per_epoch,
          bool reads_on, Fetch fetch)
      : batches_per_epoch_(batches_per_epoch),
        reads_on_(reads_on),
        fetch_(std::move(fetch)),
        prefetch_factor_(prefetch_factor),
        slots_(workers.most * prefetch_factor),
        states_(workers.most),
        tuner_(workers) {
    threads_.reserve(workers.most);
    try {
      while (threads_.size() < workers.first) start_thread();
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
      if (!workers->is_inherited()) delete workers;
    }
  };
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  bool is_inherited() const { return process_.is_inherited(); }
  /// Begins no more batches, and waits until no batch is being read; at most `seconds`, unless that
  /// is 0. Returns whether no batch is being read.
  bool finish(double seconds) noexcept {
    std::unique_lock lock(mutex_);
    drop();
    return wait(lock, seconds, [this] {
      return std::all_of(states_.begin(), states_.end(),
                         [](const State& state) { return state.at == no_position; });
    });
  }

  /// Waits for the batch at a position and returns it, or throws what fetching it threw. If the
  /// position does not follow the previous one, all prefetched batches are dropped. After
  /// `seconds`, unless that is 0, it calls `late(at, sample)`, which throws, with what a worker is
  /// reading. Throws Error in a forked child, which does not have the threads.
  template <class Late>
  Batch take(BatchPosition at, double seconds, const Late& late) {
    if (is_inherited())
      throw Error(
          "DataLoader: its threads are those of the process that this one was forked from. Make a "
          "loader in this process, or fork before the first batch.");
    std::unique_lock lock(mutex_);
    if (at != next_to_take_) restart(at);
    Slot& slot = slot_of(at);
    if (!wait_for(slot, lock, seconds)) {
      const State* reader = reader_of(at);
      const BatchPosition read = reader ? reader->at : no_position;
      const std::int64_t sample = reader ? reader->reading.sample.load() : Reading::none;
      drop();
      lock.unlock();
      late(read, sample);
    }
    Slot fetched = std::exchange(slot, {});
    if (auto* error = std::get_if<2>(&fetched)) {
      drop();
      std::rethrow_exception(std::move(*error));
    }
    next_to_take_ = after(at);
    tune();
    lock.unlock();
    may_fetch_.notify_one();
    return std::get<1>(std::move(fetched));
  }

  /// Returns the number of threads that fetch.
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return tuner_.workers();
  }
  WorkerTimes times() const {
    const std::lock_guard lock(mutex_);
    return tuner_.times();
  }

 private:
  using Slot = std::variant<std::monostate, Batch, std::exception_ptr>;
  static constexpr BatchPosition no_position{-1, -1};
  struct State {
    BatchPosition at = no_position;  // the batch that the worker is reading; needs the mutex
    Reading reading;
  };

  BatchPosition after(BatchPosition at) const {
    ++at.batch;
    if (reads_on_ && at.batch == batches_per_epoch_) at = {at.epoch + 1, 0};
    return at;
  }
  /// Returns the number of batches before a position, all epochs together, modulo 2^64.
  std::uint64_t ordinal(BatchPosition at) const {
    return static_cast<std::uint64_t>(at.epoch) * static_cast<std::uint64_t>(batches_per_epoch_) +
           static_cast<std::uint64_t>(at.batch);
  }
  Slot& slot_of(BatchPosition at) { return slots_[ordinal(at) % slots_.size()]; }
  template <class Holds>
  bool wait(std::unique_lock<std::mutex>& lock, double seconds, Holds holds) {
    using std::chrono::nanoseconds;
    if (seconds == 0) return batch_fetched_.wait(lock, holds), true;
    const auto limit =
        std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
    return batch_fetched_.wait_for(lock, limit, holds);
  }
  /// Waits until a slot has its batch or its exception. Returns false if the time is over.
  bool wait_for(const Slot& slot, std::unique_lock<std::mutex>& lock, double seconds) {
    const auto is_there = [&] { return slot.index() != 0; };
    const WorkerTuner::Wait measured(tuner_, is_there());
    return wait(lock, seconds, is_there);
  }
  /// Returns the worker that reads the batch at a position; else one that reads another batch, for
  /// which this batch has to wait.
  const State* reader_of(BatchPosition at) const {
    const State* other = nullptr;
    for (const State& state : states_) {
      if (state.at == at) return &state;
      if (state.at != no_position) other = &state;
    }
    return other;
  }
  /// Begins no batch until the next call of `take`, which fetches all batches again.
  void drop() { next_to_take_ = next_to_fetch_ = no_position; }
  void restart(BatchPosition at) {
    ++restarts_;
    next_to_take_ = next_to_fetch_ = at;
    for (Slot& slot : slots_) slot = {};
    may_fetch_.notify_all();
  }
  bool may_fetch() const {
    return next_to_fetch_ != no_position && next_to_fetch_.batch < batches_per_epoch_ &&
           ordinal(next_to_fetch_) - ordinal(next_to_take_) < tuner_.workers() * prefetch_factor_;
  }
  void start_thread() {
    const std::size_t worker = threads_.size();
    threads_.emplace_back([this, worker] { work(worker); });
  }
  /// Starts another worker if the tuner asks for one, or ends the newest: a thread that the system
  /// refuses is one fewer.
  void tune() {
    if (!tuner_.take()) return;
    if (tuner_.workers() <= threads_.size()) return may_fetch_.notify_all();
    try {
      start_thread();
    } catch (const std::exception&) {
      tuner_.give_up();
    }
  }

  void stop() noexcept {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      for (State& state : states_) state.reading.stop = true;
    }
    may_fetch_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void work(std::size_t worker) {
    bridge::OneThread one_thread;
    State& state = states_[worker];
    std::unique_lock lock(mutex_);
    while (true) {
      may_fetch_.wait(lock, [&] { return stop_ || worker >= tuner_.workers() || may_fetch(); });
      if (stop_ || worker >= tuner_.workers()) return;
      const BatchPosition at = std::exchange(next_to_fetch_, after(next_to_fetch_));
      std::uint64_t restarts = restarts_;
      state.at = at;
      state.reading.begin(Reading::none);
      lock.unlock();
      const auto begin = WorkerTuner::Clock::now();
      Slot fetched = try_fetch(worker, at);
      const auto end = WorkerTuner::Clock::now();
      lock.lock();
      tuner_.note_fetch(end - begin);
      state.at = no_position;
      if (restarts == restarts_) slot_of(at) = std::move(fetched);  // otherwise no longer needed
      batch_fetched_.notify_one();
    }
  }
  /// Returns the batch, or the exception that fetching it threw.
  Slot try_fetch(std::size_t worker, BatchPosition at) {
    try {
      return Slot(std::in_place_index<1>, fetch_(worker, at, states_[worker].reading));
    } catch (...) {
      return Slot(std::in_place_index<2>, std::current_exception());
    }
  }

  OwnProcess process_;
  std::int64_t batches_per_epoch_;
  bool reads_on_;
  Fetch fetch_;
  mutable std::mutex mutex_;
  std::condition_variable may_fetch_, batch_fetched_;
  bool stop_ = false;
  std::size_t prefetch_factor_;
  std::vector<Slot> slots_;  // a batch is in the slot of its ordinal modulo their number
  BatchPosition next_to_take_ = no_position;
  BatchPosition next_to_fetch_ = no_position;  // the first batch that no worker has begun
  std::uint64_t restarts_ = 0;                 // a batch begun before the last restart is dropped
  std::vector<State> states_;  // one per worker; never moved, since threads refer to them
  WorkerTuner tuner_;
  std::vector<std::thread> threads_;
};

}  // namespace ikebana::detail
