#pragma once
// The values of an optimizer's policy: what each group has, and which are refused.
#include <cmath>
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/bucket.hpp>
#include <ikebana/optimizer/group.hpp>
#include <ikebana/parameters/update.hpp>
#include <string>

namespace ikebana::detail {

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
  bool any_momentum() const {
    bool any = values.momentum != 0;
    for (const Group& group : values.groups) any |= group.momentum.value_or(0) != 0;
    return any;
  }

 protected:
  /// Set by an optimizer whose update takes the lr of a device by `with_rate`.
  bool rate_is_number_ = false;
  static constexpr bool decays = requires(Policy v) { v.weight_decay; };
  static constexpr bool has_betas = requires(Policy v) { v.betas; };
  static constexpr bool has_eps =
      requires(Policy v) { requires std::same_as<decltype(v.eps), double>; };
  static constexpr bool has_momentum = requires(Policy v) { v.momentum; };

  /// Throws BadValue if `good` is false. `what` is a text, or a function that makes one, since this
  /// is called in every step.
  template <class Text>
  static void check(bool good, const Text& what) {
    if (good) return;
    if constexpr (std::is_invocable_v<const Text&>) throw BadValue("optimizer: " + what());
    else throw BadValue(std::string("optimizer: ") + what);
  }
  void check_rate() const {
    check_not_negative(values.lr, "lr");
    if constexpr (decays) check_not_negative(values.weight_decay, "weight_decay");
    for (const Group& group : values.groups) check_group(group);
  }
  void check_betas() const { check_betas(values.betas, ""); }
  void check_eps() const { check_not_negative(values.eps, "eps"); }

  /// The learning rate of a group in this step.
  template <class Rate>
  double checked_rate(std::size_t g, const Rate& rate) const {
    const Group& group = group_at(values.groups, g);
    const double base = group.lr.value_or(values.lr), lr = GroupRate(group.schedule, rate)(base);
    check(std::isfinite(lr) && lr >= 0, [&] {
      return "the schedule makes the lr " + c10::str(lr) + " of " + c10::str(base) +
             "; it must be finite and not negative.";
    });
    return lr;
  }
  /// The other numbers of a group in this step.
  template <class Rate>
  GroupNumbers numbers(std::size_t g, const Rate& rate) const {
    const Group& group = group_at(values.groups, g);
    GroupNumbers n;
    if constexpr (decays) n.weight_decay = group.weight_decay.value_or(values.weight_decay);
    if constexpr (has_eps) n.eps = group.eps.value_or(values.eps);
    if constexpr (has_betas) {
      n.betas = group.betas.value_or(values.betas);
      n.betas[0] = checked_momentum(group, n.betas[0], rate, "first beta");
    }
    if constexpr (has_momentum)
      n.momentum =
          checked_momentum(group, group.momentum.value_or(values.momentum), rate, "momentum");
    return n;
  }
  /// Whether a group has a momentum, by the values or in this step.
  template <class Rate>
  bool any_momentum(const Rate& rate) const {
    bool any = this->any_momentum();
    for (std::size_t g = 0; !any && g <= values.groups.size(); ++g)
      any = numbers(g, rate).momentum != 0;
    return any;
  }
  /// What is made in a recorded step would be made anew by each replay, and the operators of a
  /// first update are others than those of later ones.
  [[noreturn]] static void refuse_recording() {
    throw BadValue(
        "optimizer: this step is recorded, and the optimizer makes or sorts its state in it, as in "
        "the first two steps, after an error, and where other parameters get gradients. Make "
        "ordinary steps before.");
  }
  /// Of a parameter that gets a gradient: fused operators have no kernels for others.
  static void check_dtype(const Masters& masters, std::size_t i) {
    const at::ScalarType type = masters.values[i].scalar_type();
    const bool has_kernels =
        type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
    check(has_kernels, [&] {
      return "`" + masters.names[i] + "` has dtype " + c10::toString(type) +
             "; it must be Float, Double, BFloat16 or Half. Convert it, or freeze it: "
             "requires_grad_(false).";
    });
  }

 private:
  template <class Rate>
  double checked_momentum(const Group& group, double base, const Rate& rate,
                          const char* name) const {
    const double m = GroupRate(group.schedule, rate).momentum(base);
    check(std::isfinite(m) && m >= 0 && (m < 1 || !has_betas), [&] {
      return "the schedule makes the " + std::string(name) + " " + c10::str(m) + " of " +
             c10::str(base) + "; it must be finite and not negative, and a beta below 1.";
    });
    return m;
  }
  /// `of`: "" for the policy's values, or "a group's ".
  static void check_not_negative(double value, const char* name, const char* of = "") {
    check(std::isfinite(value) && value >= 0, [&] {
      return of + std::string(name) + " is " + c10::str(value) +
             "; it must be finite and not negative.";
    });
  }
  static void check_betas(const std::array<double, 2>& betas, const std::string& of) {
    for (double beta : betas)
      check(beta >= 0 && beta < 1, [&] {
        return "one of " + of + "betas is " + c10::str(beta) + "; it must lie in [0, 1).";
      });
  }
  static void check_field(bool has_field, bool is_set, const char* name) {
    check(has_field || !is_set, [&] {
      return "a group has `" + std::string(name) + "`, and " + type_name<Policy>() +
             " has no such field. Leave it out.";
    });
  }
  static void check_group(const Group& group) {
    check(static_cast<bool>(group.match), "a group has no rule. Give one: named(\"*.bias\").");
    check_field(decays, group.weight_decay.has_value(), "weight_decay");
    check_field(has_betas, group.betas.has_value(), "betas");
    check_field(has_eps, group.eps.has_value(), "eps");
    check_field(has_momentum, group.momentum.has_value(), "momentum");
    const char* of = "a group's ";
    check_not_negative(group.lr.value_or(0), "lr", of);
    check_not_negative(group.weight_decay.value_or(0), "weight_decay", of);
    check_not_negative(group.eps.value_or(0), "eps", of);
    check_not_negative(group.momentum.value_or(0), "momentum", of);
    if (group.betas) check_betas(*group.betas, of);
    check(has_betas || has_momentum || !group.schedule.cycles_momentum(), [] {
      return "the schedule of a group has cycle_momentum, and " + type_name<Policy>() +
             " has neither momentum nor betas. Write .cycle_momentum = false.";
    });
  }
};

}  // namespace ikebana::detail
