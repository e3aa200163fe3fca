#pragma once
// Defines the policy Observe<EachUnit> and its mechanism.
#include <ikebana/hooks.hpp>
#include <ikebana/observe/module_clock.hpp>
#include <ikebana/observe/profiled_unit.hpp>
#include <ikebana/observe/unit_clock.hpp>
#include <ikebana/observe/unit_operators.hpp>
#include <ikebana/observe/unit_summary.hpp>
#include <optional>

namespace ikebana {

/// Measures each unit of the model: its time in forward and in backward, the floating-point
/// operations of its products, the bytes that its operators move, its activations and parameters.
/// `trainer.mechanism<Observe<EachUnit>>().summary()` has them as a tree, a table, a flame graph
/// and comma-separated values. Not in `ikebana.hpp`: include <ikebana/observe.hpp>.
///
/// If the model declares no units, its modules are measured on a CPU: an operator belongs to the
/// module whose parameter or buffer it is given, and one without any to the module around the one
/// that computed last. Time in which no operator runs belongs to the model. Each operator then
/// costs about two microseconds.
///
/// What no unit computes counts for the model itself. Operators are counted in the first step,
/// which therefore takes longer, by some microseconds per operator, and is not timed. The backward
/// of a unit begins with the first gradient of its results, and has its recompute under Checkpoint.
/// On an accelerator the times are the device's own, by events, and the host waits for none. Costs
/// some reads of the clock per unit, and two autograd hooks. `Capture<WholeStep>` is refused, since
/// a replay has no units. Throws BadValue for a `warmup` below 1.
template <>
struct Observe<EachUnit> {
  /// Steps at the beginning that are not timed: the first one counts operators.
  std::int64_t warmup = 3;
};

template <>
struct Mechanism<Observe<EachUnit>> : ObserveHooks {
  static constexpr bool listens_to_backward = true;
  using carries_out = Observe<EachUnit>;
  Observe<EachUnit> values;
  explicit Mechanism(Observe<EachUnit> v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table);
  template <class Core, class Batch, class Next>
  auto around_step(Core&, const Batch&, Next&& next) {
    if (is_paused_) return next();
    const Step step(*this);
    auto report = next();
    finish_step(report);
    return report;
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (!is_open_ || (phase != Phase::Forward && phase != Phase::Backward)) return next();
    const bool is_forward = phase == Phase::Forward;
    const Part part(*this, clock_->part(0, is_forward ? Clock::Forward : Clock::Backward));
    const EndForward end{is_forward ? operators_.get() : nullptr, 0, ends_with_model_};
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    if (profiler_ != nullptr) {
      const detail::ProfiledUnit range(*profiler_, ranges_[unit.index]);
      return next(std::forward<Args>(args)...);
    }
    if (!is_open_ || modules_->are_modules()) return next(std::forward<Args>(args)...);
    return in_forward(unit, [&]() -> decltype(auto) { return next(std::forward<Args>(args)...); });
  }
  void before_unit_backward(const Unit& unit) {
    if (is_open_ && !modules_->are_modules())
      clock_->enter(clock_->part(unit.index, Clock::Backward));
  }
  void after_unit_backward(const Unit&) {
    if (is_open_ && !modules_->are_modules()) clock_->enter(clock_->part(0, Clock::Backward));
  }
  std::string describe() const { return "warmup=" + std::to_string(values.warmup); }

  /// Returns means over the steps so far that are counted. Waits for an accelerator.
  UnitSummary summary();
  /// Forgets all times. What was counted in the first step remains.
  void reset();
  /// With true, the next steps are not measured, and cost what they cost without this policy but
  /// for a comparison per unit; with false they are measured again.
  void pause(bool pauses = true) { is_paused_ = pauses; }
  bool is_paused() const { return is_paused_; }  ///< returns what `pause` was given
  /// Gives each unit a range in what a profiler records from now on, instead of measuring it;
  /// nullptr: measures as before.
  void mark_in(detail::ProfilerLoop* profiler) { profiler_ = profiler; }

 private:
  using Clock = detail::UnitClock;

  /// RAII: a step. If it throws, it is not counted.
  struct Step {
    explicit Step(Mechanism& m) : mechanism(m) {
      mechanism.open_step();
      if (mechanism.modules_->are_modules())
        by_module.emplace(*mechanism.modules_, *mechanism.clock_);
    }
    ~Step() {
      by_module.reset();
      mechanism.close();
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    Mechanism& mechanism;
    std::optional<detail::ModuleClock> by_module = {};
  };
  /// RAII: a part of the step. At its end the part around it goes on.
  struct Part {
    Part(Mechanism& m, Clock::Part part) : clock(*m.clock_), before(clock.enter(part)) {}
    ~Part() { clock.enter(before); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    Clock& clock;
    Clock::Part before;
  };

  /// RAII: a forward of a unit, or of several, whose memory is counted at its end, when its results
  /// exist; null: it is not.
  struct EndForward {
    detail::UnitOperators* operators;
    std::size_t unit, count = 1;
    ~EndForward() {
      for (std::size_t i = 0; operators != nullptr && i < count; ++i)
        operators->end_forward(unit + i);
    }
  };

  void open_step();
  /// Counts a step that was made. One whose attempts ran out of memory has counted these as well,
  /// so the next one counts operators.
  void finish_step(const Report& report);
  void close() noexcept;
  template <class Next>
  decltype(auto) in_forward(const Unit& unit, Next&& next) {
    const Part part(*this, clock_->part(unit.index, Clock::Forward));
    if (operators_ != nullptr) note_call(unit, part.before / 2);
    const EndForward end{operators_.get(), unit.index};
    return next();
  }
  void note_call(const Unit& unit, std::size_t outer);
  UnitTimes of_unit(std::size_t unit, double seconds_of_all) const;

  std::optional<detail::MeasuredModules> modules_;
  std::optional<Clock> clock_;
  std::size_t ends_with_model_ = 1;  // the parts whose memory is counted at the model's end
  std::unique_ptr<detail::UnitOperators> operators_;  // while the first step is made
  std::vector<UnitTimes> counted_;                    // what the first step has counted
  std::int64_t made_ = 0;                             // steps
  bool is_open_ = false, is_paused_ = false;
  detail::ProfilerLoop* profiler_ = nullptr;
  std::vector<std::string> ranges_;  // by unit
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/each_unit.ipp>
#endif
