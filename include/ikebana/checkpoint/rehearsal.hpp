#pragma once
// A frame that measures its recompute: rehearses it before, to the end.
#include <chrono>
#include <ikebana/checkpoint/draws.hpp>
#include <ikebana/checkpoint/measurement.hpp>
#include <ikebana/checkpoint/operator_rule.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::detail {

/// Nanoseconds until now. Waits for the device: only what is measured does. Without values, those
/// that operators of these sizes take, about.
class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device) : device_(device) { restart(); }
  void restart() { begin_ = now(); }
  std::int64_t nanoseconds() const { return now() - begin_; }

 private:
  std::int64_t now() const {
    if (without_values()) return nanoseconds_without_values;
    bridge::synchronize(device_);
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  }
  c10::Device device_;
  std::int64_t begin_;
};

/// The operator mode of a rehearsal: which outputs Selective would keep, and how long it takes to
/// compute them. Keeps none of them. A template for the same reason as Frame.
template <class = void>
class WatchOperators : public bridge::OperatorMode {
 public:
  WatchOperators(bridge::MemoryCounter& counter, c10::Device device)
      : counter_(counter), device_(device), level_(counter.now()), since_begin_(device) {
    counter_.reset_peak();
  }

  void call(bridge::OperatorCall& call) override {
    ++operators_;
    if (is_filled_) return call.compute();
    if (call.schema().is_mutable()) return write(call);
    if (call.name().name == "aten::_to_copy" || !matrix_operators(call)) return call.compute();
    StorageSet<> arguments;
    each_tensor(call.arguments(), [&](const at::Tensor& t) { arguments.add(t); });
    const Stopwatch since_call(device_);
    call.compute();
    time_kept_ += since_call.nanoseconds();
    lap();
    each_tensor(call.results(), [&](const at::Tensor& t) {
      if (!arguments.has(t) && outputs_.add(t)) kept_.push_back(t.storage().getWeakStorageImpl());
    });
  }
  /// The last tensor that autograd saves is there. Selective keeps nothing of what follows.
  void filled() {
    lap();
    is_filled_ = true;
    time_ = since_begin_.nanoseconds(), laps_to_fill_ = laps_.size();
  }
  /// The end of the unit: bytes first, which the caller then releases.
  void end_bytes(Recomputed& seen, const std::vector<at::Tensor>& saved,
                 std::vector<at::Tensor>& results, const StorageSet<>& inputs) {
    lap();
    StorageSet<> all_saved, all_results, saved_results;
    all_saved.add_all(saved), all_results.add_all(results);
    for (const at::Tensor& t : saved)
      if (inputs.has(t)) seen.saved_inputs.add(t);
      else if (all_results.has(t)) saved_results.add(t);
    seen.keeps_result = saved_results.size() > 0;
    seen.result = all_results.bytes_beyond(inputs);
    for (const Lap& one : laps_) seen.rise_whole = std::max(seen.rise_whole, one.peak);
    set_selective(seen, all_saved, all_results);
    results.clear();
    seen.keep = std::max<std::int64_t>(0, counter_.now() - level_ - saved_results.bytes());
  }
  void end_times(Recomputed& seen) const {
    const std::int64_t whole = since_begin_.nanoseconds();
    if (seen.operators > 0 && seen.time_watched <= time_) return;  // the fastest run counts
    seen.time_watched = time_, seen.time_kept = time_kept_, seen.time_rest = whole - time_;
    seen.operators = operators_;
  }

 private:
  /// The peak between two operators that Selective keeps, and how many it had kept before.
  struct Lap {
    std::int64_t peak;
    std::size_t kept;
  };
  void lap() {
    laps_.push_back({counter_.peak() - level_, kept_.size()});
    counter_.reset_peak();
  }
  /// Selective may have to keep a copy of an output that is written to.
  void write(bridge::OperatorCall& call) {
    each_tensor(call.arguments(), [&](const at::Tensor& t) {
      if (outputs_.has(t)) written_.add(t);
    });
    call.compute();
  }
  /// During a recompute all that it keeps is there from the beginning.
  void set_selective(Recomputed& seen, const StorageSet<>& saved, const StorageSet<>& results) {
    std::vector<std::int64_t> made_anyway{0};  // by the first of them, of what autograd saves
    for (const auto& weak : kept_) {
      auto* storage = weak._unsafe_get_target();
      const auto bytes = outputs_.bytes_of(storage);
      const bool is_copy = written_.has(storage);
      made_anyway.push_back(made_anyway.back());
      if (results.has(storage) && !is_copy) {  // counted as the input of what takes it
        seen.keeps_result = true;
        continue;
      }
      seen.selective += bytes;
      if (saved.has(storage) && !is_copy) made_anyway.back() += bytes;
      else seen.selective_unsaved += bytes;
    }
    for (std::size_t i = 0; i < laps_to_fill_; ++i)
      seen.rise_selective = std::max(seen.rise_selective,
                                     laps_[i].peak + seen.selective - made_anyway[laps_[i].kept]);
    seen.rise_selective += written_.bytes();  // copied once more by each recompute
  }

  bridge::MemoryCounter& counter_;
  c10::Device device_;
  std::int64_t level_;
  Stopwatch since_begin_;
  std::int64_t time_ = 0, time_kept_ = 0, operators_ = 0;
  bool is_filled_ = false;
  StorageSet<> outputs_, written_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> kept_;  // in order
  std::vector<Lap> laps_;
  std::size_t laps_to_fill_ = 0;
};

/// Keeps nothing, as Full, and rehearses each recompute: once for bytes, and then, since kernels
/// and pages are warm by now, several times for the time of its operators and its own. A template
/// for the same reason as Frame.
template <class = void>
class Rehearsal {
 public:
  struct Rule {
    std::shared_ptr<Measurement<>> measurement;
    std::shared_ptr<const std::size_t>
        place;  ///< as long as this frame exists, there is a backward
  };
  using Replay = Rehearsal&;
  /// Surrounds the forward of a unit, in forward and in a recompute.
  struct Scope {
    std::optional<bridge::OperatorScope<>> operators;
    Scope() = default;
    explicit Scope(Rehearsal& rehearsal) {
      if (rehearsal.watch_) operators.emplace(*rehearsal.watch_);
    }
  };
  template <class Slots>
  Rehearsal(const Rule& rule, const Slots&) : rule_(rule) {}

  Scope record() { return {}; }
  Rehearsal& replay(const std::string&, CompareDraws<>&) { return *this; }
  void forward_ended(std::size_t) {}
  void clear() {}

  bool goes_on() {
    if (watch_) watch_->filled();
    return watch_.has_value();
  }
  /// `rehearse(results)` returns what autograd saves; no value where other random numbers were
  /// drawn than in forward.
  template <class Inputs, class Rehearse>
  void before_recompute(const Inputs& inputs, const Rehearse& rehearse) {
    Measurement<>& measurement = *rule_.measurement;
    is_measured_ = measurement.is_present(rule_.place);
    if (!is_measured_) return;
    measurement.begin_recompute(*rule_.place);
    seen_ = {};
    StorageSet<> known;
    for (const auto& of_unit : inputs) known.add_all(of_unit);
    try {
      seen_.is_complete = watched(rehearse,
                                  [&](auto& saved, auto& results) {
                                    watch_->end_bytes(seen_, saved, results, known);
                                  }) &&
                          timed(rehearse);
    } catch (const OutOfMemory&) {  // within a limit: only the recompute itself may fit
    }
    watch_.reset();
    measurement.counter().reset_peak();
    level_ = measurement.counter().now();
    watch_time_.emplace(measurement.device());
  }
  void after_recompute() {
    if (!is_measured_) return;
    Measurement<>& measurement = *rule_.measurement;
    seen_.add_time(watch_time_->nanoseconds());
    seen_.rise = measurement.counter().peak() - level_;
    measurement.end_recompute(*rule_.place, seen_);
  }

 private:
  /// With its operators watched and without, in turn: what disturbs the process hardly disturbs
  /// all.
  template <class Rehearse>
  bool timed(const Rehearse& rehearse) {
    for (int again = 0; again < 2; ++again) {
      if (!watched(rehearse, [&](auto&, auto&) { watch_->end_times(seen_); })) return false;
      watch_.reset();
      std::vector<at::Tensor> no_results;
      const Stopwatch time(rule_.measurement->device());
      const auto saved = rehearse(no_results);
      if (!saved) return false;
      seen_.add_time(time.nanoseconds());
    }
    return true;
  }
  template <class Rehearse, class Read>
  bool watched(const Rehearse& rehearse, const Read& read) {
    watch_.emplace(rule_.measurement->counter(), rule_.measurement->device());
    std::vector<at::Tensor> results;
    const auto saved = rehearse(results);
    if (!saved) return false;
    read(*saved, results);
    return true;
  }

  Rule rule_;
  std::optional<WatchOperators<>> watch_;
  Recomputed seen_;
  bool is_measured_ = false;
  std::int64_t level_ = 0;
  std::optional<Stopwatch> watch_time_;  // of the recompute itself
};

}  // namespace ikebana::detail
