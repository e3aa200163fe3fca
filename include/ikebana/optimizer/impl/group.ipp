#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/optimizer/group.hpp>

namespace ikebana {

IKEBANA_INLINE GroupSchedule& GroupSchedule::operator=(GroupSchedule other) noexcept {
  schedule_ = std::move(other.schedule_);
  return *this;
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE GroupRate::GroupRate(const GroupSchedule& own, const RateRef& rate)
    : own_(own ? &own : nullptr), rate_(rate) {
  if (own_ != nullptr && rate_.step() < 0)
    throw BadValue(
        "optimizer: a group has a schedule of its own, and the rate that `prepare` was given "
        "does not know the step. Pass a StepRate.");
}

IKEBANA_INLINE double GroupRate::operator()(double lr) const {
  return own_ ? own_->rate(lr, rate_.step()) : rate_(lr);
}

IKEBANA_INLINE double GroupRate::momentum(double base) const {
  return own_ ? own_->momentum(base, rate_.step()) : rate_.momentum(base);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Group no_decay(ParameterRule match) {
  return {.match = std::move(match), .weight_decay = 0.0};
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE void refuse_group(std::size_t g, const Group& group, const Masters& masters,
                                 const std::vector<bool>& updated) {
  const std::string text = "optimizer: group " + std::to_string(g) + " matches no parameter";
  std::vector<std::string> names;
  for (std::size_t i = 0; i < masters.names.size(); ++i) {
    const std::string& name = masters.names[i];
    if (holds_for(group.match, masters, i))
      throw BadValue(text +
                     (updated[i] ? " that the groups before it leave: `" + name +
                                       "` is in one of them. Put the narrower rule first"
                                 : " of this optimizer: another updates `" + name +
                                       "`. Write the group there") +
                     ", or leave the group out.");
    if (updated[i]) names.push_back(name);
  }
  throw BadValue(text + nearest_names(group.match.patterns(), std::move(names)) +
                 ". Correct its rule, or leave the group out.");
}

IKEBANA_INLINE std::vector<std::size_t> group_of_each_parameter(
    const std::vector<Group>& groups, const Masters& masters,
    c10::function_ref<bool(std::size_t)> is_updated) {
  std::vector<bool> used(groups.size());
  std::vector<std::size_t> group(masters.values.size(), groups.size());
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t g = 0; g < groups.size() && group[i] == groups.size(); ++g)
      if (is_updated(i) && holds_for(groups[g].match, masters, i)) group[i] = g, used[g] = true;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (!used[g]) {
      std::vector<bool> updated;
      for (std::size_t i = 0; i < group.size(); ++i) updated.push_back(is_updated(i));
      refuse_group(g, groups[g], masters, updated);
    }
  return group;
}

IKEBANA_INLINE void GroupRules::keep(const std::vector<Group>& groups) {
  rules_.clear();
  for (const Group& group : groups) rules_.push_back(group.match);
}

IKEBANA_INLINE bool GroupRules::changed(const std::vector<Group>& groups) const {
  if (groups.size() != rules_.size()) return true;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (!groups[g].match.is(rules_[g])) return true;
  return false;
}

IKEBANA_INLINE const Group& group_at(const std::vector<Group>& groups, std::size_t g) {
  static const Group none;
  return g < groups.size() ? groups[g] : none;
}

IKEBANA_INLINE void save_groups(Archive& archive, std::vector<Group>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    archive.within("groups." + std::to_string(g), [&] {
      each_value(groups[g], [&](const char* name, double& value, const NumberRange& range) {
        archive.number(name, value, &range);
      });
    });
}

}  // namespace ikebana::detail
