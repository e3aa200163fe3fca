#pragma once
// The values of an optimizer's policy: what each group has, and which are refused.
#include <cmath>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/update.hpp>
#include <ikebana/optimizer/engine/bucket.hpp>
#include <ikebana/optimizer/group.hpp>
#include <string>

namespace ikebana::detail {

/// Which fields a policy has besides `lr` and `groups`.
struct OptimizerFields {
  bool decays, has_betas, has_eps, has_momentum;
  std::string (*policy)();  ///< the policy's name, for errors
};

/// Throws BadValue.
[[noreturn]] void refuse_value(const std::string& what);

/// The values of any policy, for the duration of a call: what computes with them, or refuses them,
/// is then plain code, which is not compiled for each policy.
struct PolicyValues {
  OptimizerFields fields;
  double lr;
  GroupNumbers numbers;  ///< without a group's values, before the schedule
  const std::vector<Group>& groups;

  /// Throws BadValue. `of`: "" for the policy's values, or "a group's ".
  static void check_not_negative(double value, const char* name, const char* of);
  /// These throw BadValue: for the lr, the weight decay and the values of groups, and for others.
  void check_rate() const;
  void check_betas() const;
  void check_eps() const;
  /// The learning rate of a group in this step. Throws BadValue for one that is negative or not
  /// finite.
  double checked_rate(std::size_t g, const RateRef& rate) const;
  /// The other numbers of a group in this step.
  GroupNumbers numbers_in_step(std::size_t g, const RateRef& rate) const;
  /// Whether a group has a momentum, by the values.
  bool any_momentum() const;
  /// The same, or in this step.
  bool any_momentum(const RateRef& rate) const;
  /// The values that Adam has.
  std::string text_of_adam() const;

 private:
  static void check_betas(const std::array<double, 2>& betas, const char* of);
  void check_group(const Group& group) const;
  void check_field(bool has_field, bool is_set, const char* name) const;
  double checked_momentum(const Group& group, double base, const RateRef& rate,
                          const char* name) const;
};

/// A policy with `lr` and `groups`, and perhaps `weight_decay`, `betas`, `eps` and `momentum`,
/// which groups may have as well. They may change between steps.
template <class Policy>
class OptimizerValues : public OptimizerHooks {
 public:
  Policy values;
  explicit OptimizerValues(Policy v) : values(std::move(v)) {}

  double base_lr() const { return values.lr; }
  /// Calls `visit(lr)` with the learning rate of each group, then that of the other parameters.
  template <class Rate, class Visit>
  void each_rate(const Rate& rate, const Visit& visit) const {
    for (std::size_t g = 0; g <= values.groups.size(); ++g) visit(checked_rate(g, rate));
  }
  /// Whether a group has a momentum, by the values.
  bool any_momentum() const { return policy_values().any_momentum(); }

 protected:
  /// Set by an optimizer whose update takes the lr of a device by `with_rate`.
  bool rate_is_number_ = false;
  static constexpr bool decays = requires(Policy v) { v.weight_decay; };
  static constexpr bool has_betas = requires(Policy v) { v.betas; };
  static constexpr bool has_eps =
      requires(Policy v) { requires std::same_as<decltype(v.eps), double>; };
  static constexpr bool has_momentum = requires(Policy v) { v.momentum; };

  static OptimizerFields fields() {
    return {decays, has_betas, has_eps, has_momentum, &type_name<Policy>};
  }
  PolicyValues policy_values() const {
    GroupNumbers n;
    if constexpr (decays) n.weight_decay = values.weight_decay;
    if constexpr (has_betas) n.betas = values.betas;
    if constexpr (has_eps) n.eps = values.eps;
    if constexpr (has_momentum) n.momentum = values.momentum;
    return {fields(), values.lr, n, values.groups};
  }
  /// Throws BadValue if `good` is false. `what` is a text, or a function that makes one, since this
  /// is called in every step.
  template <class Text>
  static void check(bool good, const Text& what) {
    if (good) return;
    if constexpr (std::is_invocable_v<const Text&>) refuse_value(what());
    else refuse_value(what);
  }
  void check_rate() const { policy_values().check_rate(); }
  void check_betas() const { policy_values().check_betas(); }
  void check_eps() const { policy_values().check_eps(); }

  /// The learning rate of a group in this step.
  double checked_rate(std::size_t g, const RateRef& rate) const {
    return policy_values().checked_rate(g, rate);
  }
  /// The other numbers of a group in this step.
  GroupNumbers numbers(std::size_t g, const RateRef& rate) const {
    return policy_values().numbers_in_step(g, rate);
  }
  /// Whether a group has a momentum, by the values or in this step.
  bool any_momentum(const RateRef& rate) const { return policy_values().any_momentum(rate); }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/optimizer_values.ipp>
#endif
