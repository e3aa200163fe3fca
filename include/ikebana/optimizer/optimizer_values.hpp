#pragma once
// The values of an optimizer's policy: what each group has, and which are refused.
#include <cmath>
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/group.hpp>
#include <ikebana/parameters/update.hpp>
#include <string>

namespace ikebana::detail {

/// A policy with `lr` and `groups`, and perhaps `weight_decay`. They may change between steps.
template <class Policy>
class OptimizerValues : public OptimizerHooks {
 public:
  Policy values;
  explicit OptimizerValues(Policy v) : values(std::move(v)) {}

  double base_lr() const { return values.lr; }

 protected:
  static constexpr bool decays = requires(Policy v) { v.weight_decay; };

  double group_lr(std::size_t g) const {
    return g < values.groups.size() ? values.groups[g].lr.value_or(values.lr) : values.lr;
  }
  double group_decay(std::size_t g) const {
    if constexpr (!decays) return 0;
    else
      return g < values.groups.size() ? values.groups[g].weight_decay.value_or(values.weight_decay)
                                      : values.weight_decay;
  }
  /// Throws BadValue if `good` is false. `what` is a text, or a function that makes one, since this
  /// is called in every step.
  template <class Text>
  static void check(bool good, const Text& what) {
    if (good) return;
    if constexpr (std::is_invocable_v<const Text&>) throw BadValue("optimizer: " + what());
    else throw BadValue(std::string("optimizer: ") + what);
  }
  void check_rate() const {
    check(std::isfinite(values.lr) && values.lr >= 0,
          [&] { return "lr is " + c10::str(values.lr) + "; it must be finite and not negative."; });
    if constexpr (decays)
      check(values.weight_decay >= 0 && std::isfinite(values.weight_decay), [&] {
        return "weight_decay is " + c10::str(values.weight_decay) +
               "; it must be finite and not negative.";
      });
    for (const Group& group : values.groups) {
      check(static_cast<bool>(group.match), "a group has no rule. Give one: named(\"*.bias\").");
      const double lr = group.lr.value_or(0), decay = group.weight_decay.value_or(0);
      check(lr >= 0 && decay >= 0 && std::isfinite(lr + decay), [&] {
        return "a group has lr " + c10::str(group.lr.value_or(values.lr)) + " and weight_decay " +
               c10::str(decay) + "; they must be finite and not negative.";
      });
      check(decays || !group.weight_decay,
            "a group has a weight_decay, and this optimizer has none. Leave it out.");
    }
  }
  /// The learning rate of a group in this step.
  template <class Rate>
  double checked_rate(std::size_t g, const Rate& rate) const {
    const double lr = rate(group_lr(g));
    check(std::isfinite(lr) && lr >= 0, [&] {
      return "the schedule makes the lr " + c10::str(lr) + " of " + c10::str(group_lr(g)) +
             "; it must be finite and not negative.";
    });
    return lr;
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
  void check_betas() const {
    for (double beta : values.betas)
      check(beta >= 0 && beta < 1,
            [&] { return "one of betas is " + c10::str(beta) + "; it must lie in [0, 1)."; });
  }
};

}  // namespace ikebana::detail
