#pragma once
// The schedule of a parameter group: any schedule policy that depends on the step alone.
#include <concepts>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/closed_form.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <memory>

namespace ikebana {

namespace detail {

/// A schedule whose policy is not known.
struct AnySchedule {
  virtual ~AnySchedule() = default;
  virtual std::unique_ptr<AnySchedule> copy() const = 0;
  virtual double rate(double base, std::int64_t step) const = 0;
  virtual double momentum(double base, std::int64_t step) const = 0;
  virtual bool cycles_momentum() const = 0;
};
/// A mechanism may not be copied: a copy is made from its values.
template <class Policy>
struct ScheduleOf : AnySchedule {
  Mechanism<Policy> mechanism;
  explicit ScheduleOf(Policy values) : mechanism(std::move(values)) {}
  std::unique_ptr<AnySchedule> copy() const override {
    return std::make_unique<ScheduleOf>(mechanism.values);
  }
  double rate(double base, std::int64_t step) const override { return mechanism.rate(base, step); }
  double momentum(double base, std::int64_t step) const override {
    return mechanism.momentum(base, step);
  }
  bool cycles_momentum() const override {
    if constexpr (requires { mechanism.cycles_momentum(); }) return mechanism.cycles_momentum();
    else return false;
  }
};

}  // namespace detail

/// A schedule of a parameter group's own, in place of the recipe's: `.schedule =
/// CosineAnnealingLR{.T_max = 100}`. Made of any policy on the axis schedule, also your own, but of
/// none that keeps a state, as ReduceLROnPlateau does. Making it throws BadValue for values that
/// the policy refuses. A copy shares nothing with it: each has a mechanism of its own. Its values
/// do not change; assign another schedule.
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
    schedule_ = std::make_unique<detail::ScheduleOf<Policy>>(std::move(values));
  }
  /// Copies have mechanisms of their own.
  GroupSchedule(const GroupSchedule& other)
      : schedule_(other.schedule_ ? other.schedule_->copy() : nullptr) {}
  GroupSchedule(GroupSchedule&&) noexcept = default;
  /// An assigned copy has one, too.
  GroupSchedule& operator=(GroupSchedule other) noexcept;
  ~GroupSchedule() = default;
  /// Whether it is a schedule.
  explicit operator bool() const { return schedule_ != nullptr; }
  /// The learning rate of step `step`, from 0, of a group whose lr is `base`.
  double rate(double base, std::int64_t step) const { return schedule_->rate(base, step); }
  /// The momentum, or first beta, of that step.
  double momentum(double base, std::int64_t step) const { return schedule_->momentum(base, step); }
  /// Whether the schedule changes the momentum.
  bool cycles_momentum() const { return schedule_ && schedule_->cycles_momentum(); }

 private:
  std::unique_ptr<const detail::AnySchedule> schedule_;
};

namespace detail {

/// The rate of a group in this step: by its own schedule, or else the step's.
class GroupRate {
 public:
  /// Throws BadValue for a group with a schedule where the step's rate is a callable that does not
  /// know the step.
  GroupRate(const GroupSchedule& own, const RateRef& rate);
  double operator()(double lr) const;
  double momentum(double base) const;

 private:
  const GroupSchedule* own_;
  RateRef rate_;
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/group_schedule.ipp>
#endif
