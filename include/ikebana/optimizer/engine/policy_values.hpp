#pragma once
// Defines the values of an optimizer's policy and of its groups, and the checks that refuse some.
#include <cmath>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/update.hpp>
#include <ikebana/optimizer/engine/bucket.hpp>
#include <ikebana/optimizer/group.hpp>
#include <string>

namespace ikebana::detail {

/// The fields that a policy has besides `lr` and `groups`.
struct OptimizerFields {
  bool decays, has_betas, has_eps, has_momentum;
  std::string (*policy)();  ///< the policy's name, for errors
};

/// Throws BadValue with this text.
[[noreturn]] void refuse_value(const std::string& what);

/// The values of any policy, for the duration of a call. The code that checks them or computes with
/// them is therefore no template, and is not compiled for each policy.
struct PolicyValues {
  OptimizerFields fields;
  double lr;
  GroupNumbers numbers;  ///< the policy's numbers, without a group's values and the schedule
  const std::vector<Group>& groups;

  /// Throws BadValue with a text about `name`. `of` is "" for the policy's values, or "a group's ".
  static void check_not_negative(double value, const char* name, const char* of);
  /// These throw BadValue for values that are refused. `check_rate` checks the lr, the weight decay
  /// and all values of groups.
  void check_rate() const;
  void check_betas() const;
  void check_eps() const;
  /// Returns the learning rate of a group in this step. Throws BadValue if it is negative or not
  /// finite.
  double checked_rate(std::size_t g, const RateRef& rate) const;
  /// Returns the other numbers of a group in this step.
  GroupNumbers numbers_in_step(std::size_t g, const RateRef& rate) const;
  /// Returns true if the policy or a group has a momentum.
  bool any_momentum() const;
  /// Returns true if the policy or a group has a momentum, by its values or in this step.
  bool any_momentum(const RateRef& rate) const;
  /// Returns the text of the values that Adam has.
  std::string text_of_adam() const;

 private:
  static void check_betas(const std::array<double, 2>& betas, const char* of);
  void check_group(const Group& group) const;
  void check_field(bool has_field, bool is_set, const char* name) const;
  double checked_momentum(const Group& group, double base, const RateRef& rate,
                          const char* name) const;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/policy_values.ipp>
#endif
