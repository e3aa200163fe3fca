#pragma once
// Defines the base of OneCycleLR and CyclicLR, which set the rate themselves and may cycle the
// momentum.
#include <ikebana/detail/text.hpp>
#include <ikebana/schedule/schedule.hpp>
#include <optional>
#include <utility>

namespace ikebana::detail {

/// Refuses a recorded step whose momentum changes: each replay would use the momentum of the
/// recorded step.
void refuse_recorded_momentum();

/// The base of schedules with fields `cycle_momentum`, `base_momentum` and `max_momentum`. They
/// implement `after_warmup`, `momentum_after_warmup(step)` and `check()`, as WarmupSchedule has it,
/// and `own_rate()`: if it is not null, all parameters get the same rate, and it is the advice in
/// the error if they have several. A warm-up rises to the schedule's first rate, with its first
/// momentum.
template <class Policy>
struct CyclingSchedule : WarmupSchedule<Policy> {
  using Base = WarmupSchedule<Policy>;
  using Base::Base, Base::values;
  static constexpr bool is_closed_form = true;  // its hooks only check

  bool cycles_momentum() const { return values.cycle_momentum; }
  /// Only the schedule of the recipe is attached. A group's schedule has one lr, and no hook of a
  /// step is called on it.
  void attach(c10::Device, const UnitTable&) { is_of_recipe_ = true; }
  /// Runs after the optimizer's `prepare`, which has asked for what it uses.
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    if (values.cycle_momentum && asked_.base && !asked_.momentum)
      refuse_cycled_momentum(type_name<Policy>(), "the recipe's optimizer");
    asked_.is_checked = true;
  }
  void end_step(const StepGradients&, Report&) noexcept { asked_ = {}; }
  void abort() noexcept { asked_ = {}; }

 protected:
  template <class Schedule>
  static double rate(const Schedule& schedule, double base, std::int64_t step) {
    Base::check_values(schedule);
    if (schedule.is_of_recipe_) schedule.asked_.check_base(base, step, schedule.own_rate());
    const std::int64_t warmup = schedule.values.warmup_steps;
    if (step >= warmup) return schedule.after_warmup(base, static_cast<double>(step - warmup));
    return schedule.after_warmup(base, 0) * static_cast<double>(step + 1) /
           static_cast<double>(warmup);
  }
  template <class Schedule>
  static double momentum(const Schedule& schedule, double base, std::int64_t step) {
    if (!schedule.values.cycle_momentum) return base;
    refuse_recorded_momentum();
    Base::check_values(schedule);
    if (schedule.is_of_recipe_) schedule.asked_.momentum = true;
    const std::int64_t t = std::max<std::int64_t>(step - schedule.values.warmup_steps, 0);
    return schedule.momentum_after_warmup(static_cast<double>(t));
  }
  void check_momentum() const {
    const auto fits = [](double m) { return m >= 0 && m < 1; };
    if (!fits(values.base_momentum) || !fits(values.max_momentum))
      throw BadValue(type_name<Policy>() + ": base_momentum and max_momentum must lie in [0, 1).");
  }

 private:
  /// Records what the optimizer has asked for in this step.
  struct Asked {
    std::optional<double> base = {};
    std::int64_t step = 0;
    bool momentum = false;
    bool is_checked = false;  // what follows is for the report

    void check_base(double other, std::int64_t of_step, const char* own_rate) {
      if (is_checked) return;
      const auto former = std::exchange(base, std::nullopt);
      if (former && step == of_step && *former != other && own_rate != nullptr)
        throw BadValue(
            type_name<Policy>() + ": it gives all parameters one rate, and the optimizer has " +
            c10::str(*former) + " and " + c10::str(other) + " as lr of theirs. " + own_rate);
      base = other, step = of_step;
    }
  };
  mutable Asked asked_;
  bool is_of_recipe_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/cycling.ipp>
#endif
