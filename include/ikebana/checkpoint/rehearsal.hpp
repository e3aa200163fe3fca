#pragma once
// A frame that measures its recompute: rehearses it before, to the end.
#include <ikebana/checkpoint/draws.hpp>
#include <ikebana/checkpoint/measurement.hpp>
#include <ikebana/checkpoint/operator_rule.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

/// Nanoseconds until now. Waits for the device: only what is measured does. Without values, those
/// that operators of these sizes take, about.
class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device) : device_(device) { restart(); }
  void restart() { begin_ = now(); }
  std::int64_t nanoseconds() const { return now() - begin_; }

 private:
  std::int64_t now() const;
  c10::Device device_;
  std::int64_t begin_;
};

/// The operator mode of a rehearsal: which outputs Selective would keep, and how long it takes to
/// compute them. Keeps none of them. A template for the same reason as Frame.
class WatchOperators : public bridge::OperatorMode {
 public:
  WatchOperators(bridge::MemoryCounter& counter, c10::Device device);

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;
  /// The last tensor that autograd saves is there. Selective keeps nothing of what follows.
  void filled();
  /// The end of the unit: bytes first, which the caller then releases.
  void end_bytes(Recomputed& seen, const std::vector<at::Tensor>& saved,
                 std::vector<at::Tensor>& results, const StorageSet& inputs);
  void end_times(Recomputed& seen) const;

 private:
  /// The peak between two operators that Selective keeps, and how many it had kept before.
  struct Lap {
    std::int64_t peak;
    std::size_t kept;
  };
  void lap();
  /// Selective may have to keep a copy of an output that is written to.
  void write(bridge::OperatorCall& call);
  /// During a recompute all that it keeps is there from the beginning.
  void set_selective(Recomputed& seen, const StorageSet& saved, const StorageSet& results);

  bridge::MemoryCounter& counter_;
  c10::Device device_;
  std::int64_t level_;
  Stopwatch since_begin_;
  std::int64_t time_ = 0, time_kept_ = 0, operators_ = 0;
  bool is_filled_ = false;
  StorageSet outputs_, written_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> kept_;  // in order
  std::vector<Lap> laps_;
  std::size_t laps_to_fill_ = 0;
};

/// Keeps nothing, as Full, and rehearses each recompute: once for bytes, and then, since kernels
/// and pages are warm by now, several times for the time of its operators and its own. A template
/// for the same reason as Frame.
class Rehearsal {
 public:
  struct Rule {
    std::shared_ptr<Measurement> measurement;
    std::shared_ptr<const std::size_t>
        place;  ///< as long as this frame exists, there is a backward
  };
  using Replay = Rehearsal&;
  /// Surrounds the forward of a unit, in forward and in a recompute.
  struct Scope {
    std::optional<bridge::OperatorScope<>> operators;
    Scope() = default;
    explicit Scope(Rehearsal& rehearsal);
  };
  template <class Slots>
  Rehearsal(const Rule& rule, const Slots&) : rule_(rule) {}

  Scope record() { return {}; }
  Rehearsal& replay(const std::string&, CompareDraws&) { return *this; }
  void forward_ended(std::size_t) {}
  void clear() {}

  bool goes_on();
  /// `rehearse(results)` returns what autograd saves; no value where other random numbers were
  /// drawn than in forward.
  template <class Inputs, class Rehearse>
  void before_recompute(const Inputs& inputs, const Rehearse& rehearse) {
    Measurement& measurement = *rule_.measurement;
    is_measured_ = measurement.is_present(rule_.place);
    if (!is_measured_) return;
    measurement.begin_recompute(*rule_.place);
    seen_ = {};
    StorageSet known;
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
  void after_recompute();

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
  std::optional<WatchOperators> watch_;
  Recomputed seen_;
  bool is_measured_ = false;
  std::int64_t level_ = 0;
  std::optional<Stopwatch> watch_time_;  // of the recompute itself
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/impl/rehearsal.ipp>
#endif
