#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/policy_values.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_value(const std::string& what) { throw BadValue("optimizer: " + what); }

// Texts are made outside of the checks, so that the checks are short enough to be inlined: every
// step makes them.
[[noreturn]] IKEBANA_INLINE void refuse_negative(double value, const char* name, const char* of) {
  refuse_value(of + std::string(name) + " is " + c10::str(value) +
               "; it must be finite and not negative.");
}
[[noreturn]] IKEBANA_INLINE void refuse_beta(double beta, const char* of) {
  refuse_value("one of " + std::string(of) + "betas is " + c10::str(beta) +
               "; it must lie in [0, 1).");
}
[[noreturn]] IKEBANA_INLINE void refuse_rate(double lr, double base) {
  refuse_value("the schedule makes the lr " + c10::str(lr) + " of " + c10::str(base) +
               "; it must be finite and not negative.");
}

IKEBANA_INLINE void PolicyValues::check_not_negative(double value, const char* name,
                                                     const char* of) {
  if (!(std::isfinite(value) && value >= 0)) refuse_negative(value, name, of);
}

IKEBANA_INLINE void PolicyValues::check_betas(const std::array<double, 2>& betas, const char* of) {
  for (double beta : betas)
    if (!(beta >= 0 && beta < 1)) refuse_beta(beta, of);
}

IKEBANA_INLINE void PolicyValues::check_rate() const {
  check_not_negative(lr, "lr", "");
  check_not_negative(numbers.weight_decay, "weight_decay", "");
  for (const Group& group : groups) check_group(group);
}

IKEBANA_INLINE void PolicyValues::check_betas() const { check_betas(numbers.betas, ""); }

IKEBANA_INLINE void PolicyValues::check_eps() const { check_not_negative(numbers.eps, "eps", ""); }

IKEBANA_INLINE void PolicyValues::check_field(bool has_field, bool is_set, const char* name) const {
  if (!has_field && is_set)
    refuse_value("a group has `" + std::string(name) + "`, and " + fields.policy() +
                 " has no such field. Leave it out.");
}

IKEBANA_INLINE void PolicyValues::check_group(const Group& group) const {
  if (!group.match) refuse_value("a group has no rule. Give one: named(\"*.bias\").");
  check_field(fields.decays, group.weight_decay.has_value(), "weight_decay");
  check_field(fields.has_betas, group.betas.has_value(), "betas");
  check_field(fields.has_eps, group.eps.has_value(), "eps");
  check_field(fields.has_momentum, group.momentum.has_value(), "momentum");
  const char* of = "a group's ";
  check_not_negative(group.lr.value_or(0), "lr", of);
  check_not_negative(group.weight_decay.value_or(0), "weight_decay", of);
  check_not_negative(group.eps.value_or(0), "eps", of);
  check_not_negative(group.momentum.value_or(0), "momentum", of);
  if (group.betas) check_betas(*group.betas, of);
  if (!fields.has_betas && !fields.has_momentum && group.schedule.cycles_momentum())
    refuse_value("the schedule of a group has cycle_momentum, and " + fields.policy() +
                 " has neither momentum nor betas. Write .cycle_momentum = false.");
}

IKEBANA_INLINE double PolicyValues::checked_rate(std::size_t g, const RateRef& rate) const {
  const Group& group = group_at(groups, g);
  const double base = group.lr.value_or(lr), now = GroupRate(group.schedule, rate)(base);
  if (!(std::isfinite(now) && now >= 0)) refuse_rate(now, base);
  return now;
}

IKEBANA_INLINE GroupNumbers PolicyValues::numbers_in_step(std::size_t g,
                                                          const RateRef& rate) const {
  const Group& group = group_at(groups, g);
  GroupNumbers n = numbers;
  if (fields.decays) n.weight_decay = group.weight_decay.value_or(n.weight_decay);
  if (fields.has_eps) n.eps = group.eps.value_or(n.eps);
  if (fields.has_betas) {
    n.betas = group.betas.value_or(n.betas);
    n.betas[0] = checked_momentum(group, n.betas[0], rate, "first beta");
  }
  if (fields.has_momentum)
    n.momentum = checked_momentum(group, group.momentum.value_or(n.momentum), rate, "momentum");
  return n;
}

IKEBANA_INLINE bool PolicyValues::any_momentum() const {
  bool any = numbers.momentum != 0;
  for (const Group& group : groups) any |= group.momentum.value_or(0) != 0;
  return any;
}

IKEBANA_INLINE bool PolicyValues::any_momentum(const RateRef& rate) const {
  bool any = any_momentum();
  for (std::size_t g = 0; !any && g <= groups.size(); ++g)
    any = numbers_in_step(g, rate).momentum != 0;
  return any;
}

IKEBANA_INLINE std::string PolicyValues::text_of_adam() const {
  return "lr=" + c10::str(lr) + ", betas=(" + c10::str(numbers.betas[0]) + ", " +
         c10::str(numbers.betas[1]) + "), eps=" + c10::str(numbers.eps) +
         ", weight_decay=" + c10::str(numbers.weight_decay);
}

IKEBANA_INLINE double PolicyValues::checked_momentum(const Group& group, double base,
                                                     const RateRef& rate, const char* name) const {
  const double m = GroupRate(group.schedule, rate).momentum(base);
  if (!(std::isfinite(m) && m >= 0 && (m < 1 || !fields.has_betas)))
    refuse_value("the schedule makes the " + std::string(name) + " " + c10::str(m) + " of " +
                 c10::str(base) + "; it must be finite and not negative, and a beta below 1.");
  return m;
}

}  // namespace ikebana::detail
