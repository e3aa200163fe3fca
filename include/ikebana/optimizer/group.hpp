#pragma once
// Defines parameter groups: rules by name or shape that give some parameters other values.
#include <array>
#include <concepts>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/hooks/closed_form.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <ikebana/model/rule.hpp>
#include <ikebana/state/archive.hpp>
#include <memory>
#include <optional>

namespace ikebana {

namespace detail {

/// A schedule of any policy.
struct AnySchedule {
  virtual ~AnySchedule() = default;
  virtual std::unique_ptr<AnySchedule> copy() const = 0;
  virtual double rate(double base, std::int64_t step) const = 0;
  virtual double momentum(double base, std::int64_t step) const = 0;
  virtual bool cycles_momentum() const = 0;
};
/// Copies itself by its values, since a mechanism cannot be copied.
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
/// CosineAnnealingLR{.T_max = 100}`. It is made from any policy on the axis schedule, also your
/// own, except one that keeps a state, as ReduceLROnPlateau does. Making it throws BadValue for
/// values that the policy refuses. Copies share nothing: each has its own mechanism. Its values do
/// not change; to change them, assign another schedule.
class GroupSchedule {
 public:
  /// Makes an empty one: the recipe's schedule applies.
  GroupSchedule() = default;
  /// Makes one from the values of a schedule. Throws BadValue for values that the schedule refuses.
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
  /// The copy has its own mechanism.
  GroupSchedule(const GroupSchedule& other)
      : schedule_(other.schedule_ ? other.schedule_->copy() : nullptr) {}
  GroupSchedule(GroupSchedule&&) noexcept = default;
  /// The assigned copy has its own mechanism, too.
  GroupSchedule& operator=(GroupSchedule other) noexcept;
  ~GroupSchedule() = default;
  /// Returns true if it is not empty.
  explicit operator bool() const { return schedule_ != nullptr; }
  /// Returns the learning rate of step `step`, from 0, of a group whose lr is `base`.
  double rate(double base, std::int64_t step) const { return schedule_->rate(base, step); }
  /// Returns the momentum, or first beta, of that step.
  double momentum(double base, std::int64_t step) const { return schedule_->momentum(base, step); }
  /// Returns true if the schedule changes the momentum.
  bool cycles_momentum() const { return schedule_ && schedule_->cycles_momentum(); }

 private:
  std::unique_ptr<const detail::AnySchedule> schedule_;
};

namespace detail {

/// The rate of a group in this step: by its own schedule, or else by the recipe's.
class GroupRate {
 public:
  /// Throws BadValue if the group has a schedule and the step's rate is a callable that does not
  /// know the step.
  GroupRate(const GroupSchedule& own, const RateRef& rate);
  double operator()(double lr) const;
  double momentum(double base) const;

 private:
  const GroupSchedule* own_;
  RateRef rate_;
};

}  // namespace detail

/// Parameters with their own values and schedule; values that are left out are the optimizer's, and
/// the schedule is then the recipe's. The first group whose rule matches applies. Making the
/// trainer throws BadValue for a group that matches no parameter, and for a value that the
/// optimizer has no field for. Rules are called when the trainer is made, and in the step after
/// another rule is assigned.
struct Group {
  /// The rule that selects parameters: a pattern of names, or a function of name and tensor.
  ParameterRule match;
  std::optional<double> lr = {};                    ///< learning rate, before the schedule
  std::optional<double> weight_decay = {};          ///< the weight decay as the optimizer applies
                                                    ///< it
  std::optional<std::array<double, 2>> betas = {};  ///< decay of its moments, in [0, 1)
  std::optional<double> eps = {};                   ///< the same as the optimizer's
  std::optional<double> momentum = {};              ///< the same as the optimizer's
  GroupSchedule schedule = {};                      ///< the schedule in place of the recipe's
};

/// Returns a group without weight decay, by default for biases and norms.
Group no_decay(ParameterRule match = one_dimensional);

namespace detail {

/// Throws BadValue for group `g`, which has no parameter. `updated` is true for the parameters that
/// this optimizer updates.
[[noreturn]] void refuse_group(std::size_t g, const Group& group, const Masters& masters,
                               const std::vector<bool>& updated);

/// Returns for each parameter with `is_updated(i)` the index of the first group that matches it, or
/// the number of groups if no group does. Throws BadValue for a group that matches none of them.
std::vector<std::size_t> group_of_each_parameter(const std::vector<Group>& groups,
                                                 const Masters& masters,
                                                 c10::function_ref<bool(std::size_t)> is_updated);

/// Keeps the rules of groups, to find out if one has changed since.
class GroupRules {
 public:
  void keep(const std::vector<Group>& groups);
  std::size_t size() const { return rules_.size(); }
  bool changed(const std::vector<Group>& groups) const;

 private:
  std::vector<ParameterRule> rules_;
};

/// Returns the group of index `g`, or a group without values if there is no such group.
const Group& group_at(const std::vector<Group>& groups, std::size_t g);
/// Calls `f(name, value, range)` for each number that a group has.
template <class F>
void each_value(Group& group, const F& f) {
  if (group.lr) f("lr", *group.lr, factor_range);
  if (group.weight_decay) f("weight_decay", *group.weight_decay, factor_range);
  if (group.betas) f("betas.0", (*group.betas)[0], beta_range);
  if (group.betas) f("betas.1", (*group.betas)[1], beta_range);
  if (group.eps) f("eps", *group.eps, factor_range);
  if (group.momentum) f("momentum", *group.momentum, factor_range);
}
/// Saves or loads the numbers of groups, which may change between steps. Schedules are not saved:
/// the program sets them.
void save_groups(Archive& archive, std::vector<Group>& groups);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/group.ipp>
#endif
