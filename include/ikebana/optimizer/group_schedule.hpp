#pragma once
// The schedule of a parameter group: any schedule policy that depends on the step alone.
#include <concepts>
#include <functional>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/closed_form.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <memory>

namespace ikebana {

/// A schedule of a parameter group's own, in place of the recipe's: `.schedule =
/// CosineAnnealingLR{.T_max = 100}`. Made of any policy on the axis schedule, also your own, but of
/// none that keeps a state, as ReduceLROnPlateau does. Making it throws BadValue for values that
/// the policy refuses. Copies share the values, which do not change; assign another schedule.
class GroupSchedule {
 public:
  /// None: the recipe's schedule applies.
  GroupSchedule() = default;
  /// From the values of a schedule. Throws BadValue for values that it refuses.
  template <class Policy>
    requires(!std::same_as<Policy, GroupSchedule> &&
             std::same_as<axis_of_t<Policy>, axis::schedule>)
  GroupSchedule(Policy values) {
    static_assert(detail::depends_on_step_alone<Mechanism<Policy>>,
                  "ikebana: the schedule of a parameter group must depend on the step alone, and "
                  "this one keeps a state from step to step or from epoch to epoch. Make it the "
                  "schedule of the recipe, or write a closed form, such as CosineAnnealingLR.");
    if constexpr (requires(const Mechanism<Policy>& m) { m.cycles_momentum(); })
      cycles_momentum_ = Mechanism<Policy>(values).cycles_momentum();
    auto schedule = std::make_shared<const Mechanism<Policy>>(std::move(values));
    rate_ = [schedule](double base, std::int64_t step) { return schedule->rate(base, step); };
    momentum_ = [schedule](double base, std::int64_t step) {
      return schedule->momentum(base, step);
    };
  }
  /// Whether it is a schedule.
  explicit operator bool() const { return static_cast<bool>(rate_); }
  /// The learning rate of step `step`, from 0, of a group whose lr is `base`.
  double rate(double base, std::int64_t step) const { return rate_(base, step); }
  /// The momentum, or first beta, of that step.
  double momentum(double base, std::int64_t step) const { return momentum_(base, step); }
  /// Whether the schedule changes the momentum.
  bool cycles_momentum() const { return cycles_momentum_; }

 private:
  std::function<double(double base, std::int64_t step)> rate_, momentum_;
  bool cycles_momentum_ = false;
};

namespace detail {

/// The rate of a group in this step: by its own schedule, or else the step's. Throws BadValue where
/// the step's rate is a callable that does not know the step.
template <class Rate>
class GroupRate {
 public:
  GroupRate(const GroupSchedule& own, const Rate& rate)
      : own_(own ? &own : nullptr), rate_(rate), step_(step_of(rate)) {
    if (own_ != nullptr && step_ < 0)
      throw BadValue(
          "optimizer: a group has a schedule of its own, and the rate that `prepare` was given "
          "does not know the step. Pass a StepRate.");
  }
  double operator()(double lr) const { return own_ ? own_->rate(lr, step_) : rate_(lr); }
  double momentum(double base) const {
    return own_ ? own_->momentum(base, step_) : momentum_of(rate_, base);
  }

 private:
  const GroupSchedule* own_;
  const Rate& rate_;
  std::int64_t step_;
};

}  // namespace detail
}  // namespace ikebana
