#pragma once
// Defines the policy PerEpoch and its mechanism.
#include <ikebana/schedule/composed.hpp>

namespace ikebana {

/// The rate of another schedule, which counts epochs instead of steps: PyTorch's `scheduler.step()`
/// once per epoch. `fit` ends epochs; in a loop of your own, call `trainer.end_epoch(epoch)`, or
/// the rate never changes. With `steps_per_epoch`, a missing end of an epoch is an error: the step
/// after so many throws BadValue and is undone. `warmup_steps` counts steps, and rises to the rate
/// of the epoch; the `warmup_steps` of the schedule within must be 0. The number of epochs is saved
/// and restored. `schedule` has no default; it may be any schedule of the library or your own,
/// except ReduceLROnPlateau, which follows epochs by itself. Source: torch.optim.
template <class Schedule>
struct PerEpoch {
  Schedule schedule = {};            ///< counts epochs; its own warmup_steps must be 0
  std::int64_t steps_per_epoch = 0;  ///< 0: not checked
  std::int64_t warmup_steps = 0;     ///< steps of a linear rise before it
};
template <class Schedule>
PerEpoch(Schedule) -> PerEpoch<Schedule>;

template <class Schedule>
struct Mechanism<PerEpoch<Schedule>> : detail::ComposedSchedule<PerEpoch<Schedule>, Schedule> {
  using Base = detail::ComposedSchedule<PerEpoch<Schedule>, Schedule>;
  using Base::values;
  static constexpr bool is_closed_form = false;  // it counts epochs
  explicit Mechanism(PerEpoch<Schedule> v) : Base(std::move(v)) { this->check_values(*this); }

  void check() const {
    detail::check_schedule("PerEpoch", values.steps_per_epoch >= 0,
                           "steps_per_epoch must not be negative.");
    this->check_parts();
    this->each([](const auto& m) { detail::each_schedule(m, refuse_warmup); });
  }
  double rate(double base, std::int64_t step) const { return Base::rate(*this, own(base), step); }
  double after_warmup(double base, double) const { return base; }
  double momentum(double base, std::int64_t) const {
    return this->template part<0>().momentum(base, epochs_);
  }
  /// Returns the number of epochs so far.
  std::int64_t epochs() const { return epochs_; }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    Base::prepare(masters, gradients, rate);
    if (values.steps_per_epoch == 0 || steps_ < values.steps_per_epoch) return;
    throw BadValue("PerEpoch: " + std::to_string(steps_) +
                   " steps were made since the last end of an epoch, which are all of its "
                   "steps_per_epoch. Call trainer.end_epoch(epoch) after the last step of each "
                   "epoch; `fit` does so.");
  }
  void end_step(const StepGradients& gradients, Report& report) noexcept {
    Base::end_step(gradients, report);
    ++steps_;
  }
  void end_epoch(const Epoch& epoch) {
    if (steps_ == 0)
      throw BadValue(
          "PerEpoch: an epoch ends, and no step was made since the last one ended. `fit` calls "
          "end_epoch after each epoch; in a loop of your own, call it once, after the last step.");
    Base::end_epoch(epoch);
    ++epochs_, steps_ = 0;
  }
  std::string describe() const {
    return "schedule=" + this->describe_parts() +
           (values.steps_per_epoch > 0
                ? ", steps_per_epoch=" + std::to_string(values.steps_per_epoch)
                : "") +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
  void state(Archive& archive, const Masters& masters) {
    archive.number("epochs", epochs_, &count_range);
    archive.number("steps", steps_, &count_range);
    Base::state(archive, masters);
  }

 private:
  static constexpr auto refuse_warmup = [](const auto& m) {
    if constexpr (requires { m.values.warmup_steps; })
      if (m.values.warmup_steps != 0)
        throw BadValue(
            "PerEpoch: warmup_steps of the schedule within is " +
            std::to_string(m.values.warmup_steps) +
            ", and would count epochs. Write it beside the schedule, PerEpoch{.schedule = ..., "
            ".warmup_steps = steps}, where it counts steps; a warm-up of epochs is a LinearLR, the "
            "first schedule of a SequentialLR.");
  };
  double own(double base) const { return this->template part<0>().rate(base, epochs_); }

  std::int64_t epochs_ = 0;
  std::int64_t steps_ = 0;  // the number of steps since the last epoch ended
};

}  // namespace ikebana
