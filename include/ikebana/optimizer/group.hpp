#pragma once
// Parameter groups: rules by name or shape that give some parameters other values.
#include <array>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/model/rule.hpp>
#include <ikebana/optimizer/engine/group_schedule.hpp>
#include <ikebana/state/archive.hpp>
#include <optional>

namespace ikebana {

/// Parameters with values and a schedule of their own; what is left out is the optimizer's and the
/// recipe's. The first group whose rule matches applies. Making the trainer throws BadValue for a
/// group that matches no parameter, and for a value that the optimizer has no field for. Rules are
/// called then, and in the step after another is assigned.
struct Group {
  /// Which parameters: a pattern of their names, or a function of name and tensor.
  ParameterRule match;
  std::optional<double> lr = {};                    ///< learning rate, before the schedule
  std::optional<double> weight_decay = {};          ///< as the optimizer applies it
  std::optional<std::array<double, 2>> betas = {};  ///< decay of its moments, in [0, 1)
  std::optional<double> eps = {};                   ///< as the optimizer's
  std::optional<double> momentum = {};              ///< as the optimizer's
  GroupSchedule schedule = {};                      ///< in place of the recipe's
};

/// A group without weight decay, by default of biases and norms.
Group no_decay(ParameterRule match = one_dimensional);

namespace detail {

/// Throws BadValue for group `g`, which has no parameter; `updated`: which parameters this
/// optimizer updates.
[[noreturn]] void refuse_group(std::size_t g, const Group& group, const Masters& masters,
                               const std::vector<bool>& updated);

/// For each parameter with `is_updated(i)`, the index of the first group that matches it; the
/// number of groups if none does. Throws BadValue for a group that matches none of them.
std::vector<std::size_t> group_of_each_parameter(const std::vector<Group>& groups,
                                                 const Masters& masters,
                                                 c10::function_ref<bool(std::size_t)> is_updated);

/// The rules of groups, and whether a group has another one since.
class GroupRules {
 public:
  void keep(const std::vector<Group>& groups);
  std::size_t size() const { return rules_.size(); }
  bool changed(const std::vector<Group>& groups) const;

 private:
  std::vector<ParameterRule> rules_;
};

/// The group of that index; one without values where there is none.
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
/// Saves or loads the numbers of groups, which may change between steps. Schedules are the
/// program's.
void save_groups(Archive& archive, std::vector<Group>& groups);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/group.ipp>
#endif
