#pragma once
// The schedule of a parameter group: any schedule policy that depends on the step alone.
#include <concepts>
#include <functional>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <memory>

namespace ikebana {

namespace detail {

/// True for a schedule that no hook but `rate` and `momentum` concerns: a closed form of the step.
/// A group asks no others, so what one with a state keeps would neither advance nor be saved.
template <class Schedule>
concept depends_on_step_alone =
    std::same_as<decltype(&Schedule::attach), decltype(&Hooks::attach)> &&
    std::same_as<decltype(&Schedule::begin), decltype(&Hooks::begin)> &&
    std::same_as<decltype(&Schedule::template prepare<double>),
                 decltype(&Hooks::prepare<double>)> &&
    std::same_as<decltype(&Schedule::after_update), decltype(&Hooks::after_update)> &&
    std::same_as<decltype(&Schedule::end_step), decltype(&Hooks::end_step)> &&
    std::same_as<decltype(&Schedule::abort), decltype(&Hooks::abort)> &&
    std::same_as<decltype(&Schedule::end_epoch), decltype(&Hooks::end_epoch)> &&
    std::same_as<decltype(&Schedule::state), decltype(&Hooks::state)>;

}  // namespace detail

/// A schedule of a parameter group's own, in place of the recipe's: `.schedule =
/// CosineAnnealingLR{.T_max = 100}`. Made of any policy on the axis schedule, also your own, but of
/// none that keeps a state, as ReduceLROnPlateau does. Making it throws BadValue for values that
/// the policy refuses. Copies share the values, which do not change; assign another schedule.
class GroupSchedule {
 public:
  GroupSchedule() = default;
  template <class Policy>
    requires(!std::same_as<Policy, GroupSchedule> &&
             std::same_as<axis_of_t<Policy>, axis::schedule>)
  GroupSchedule(Policy values) {
    static_assert(detail::depends_on_step_alone<Mechanism<Policy>>,
                  "ikebana: the schedule of a parameter group must depend on the step alone, and "
                  "this one keeps a state from step to step or from epoch to epoch. Make it the "
                  "schedule of the recipe, or write a closed form, such as CosineAnnealingLR.");
    auto schedule = std::make_shared<const Mechanism<Policy>>(std::move(values));
    rate_ = [schedule](double base, std::int64_t step) { return schedule->rate(base, step); };
    momentum_ = [schedule](double base, std::int64_t step) {
      return schedule->momentum(base, step);
    };
  }
  explicit operator bool() const { return static_cast<bool>(rate_); }
  double rate(double base, std::int64_t step) const { return rate_(base, step); }
  double momentum(double base, std::int64_t step) const { return momentum_(base, step); }

 private:
  std::function<double(double base, std::int64_t step)> rate_, momentum_;
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
