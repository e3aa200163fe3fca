#pragma once
// Defines the base of optimizers that compute each update by LibTorch's operators, on every device,
// in the order of torch.optim with foreach=False.
#include <ikebana/optimizer/engine/per_parameter.hpp>

namespace ikebana::detail {

/// Returns a number of an update as an operand of operators that have an `out`.
inline at::Tensor operand(double x) { return scalar(x, at::kDouble, c10::kCPU); }
inline at::Tensor operand(const at::Tensor& x) { return x; }

/// Computes p += factor * a / b. Takes one pass if the factor is a double. If it is a tensor,
/// overwrites `spare`, which may be `a`.
void add_quotient(const at::Tensor& p, const at::Tensor& a, const at::Tensor& b, double factor,
                  at::Tensor);
void add_quotient(const at::Tensor& p, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor& factor, at::Tensor spare);
/// Computes p += factor * change in the same way.
void add_scaled(const at::Tensor& p, const at::Tensor& change, double factor, at::Tensor);
void add_scaled(const at::Tensor& p, const at::Tensor& change, const at::Tensor& factor,
                at::Tensor spare);

/// Returns a slot of state that is one number per parameter, which only the device may know. It
/// begins with the value `first`.
Slot number_slot(const char* name, double first);

/// Makes "lr=0.1, eps=1e-08" from pairs of names and values.
inline std::string named_values() { return {}; }
template <class Value, class... Rest>
std::string named_values(const char* name, const Value& value, const Rest&... rest) {
  std::string text = std::string(name) + "=";
  if constexpr (std::is_same_v<Value, std::array<double, 2>>)
    text += "(" + c10::str(value[0]) + ", " + c10::str(value[1]) + ")";
  else text += c10::str(value);
  return text + (sizeof...(rest) > 0 ? ", " : "") + named_values(rest...);
}

template <class Policy>
class ByOperators : public PerParameterOptimizer<Policy> {
 public:
  explicit ByOperators(Policy v, std::vector<Slot> state_slots,
                       std::optional<std::size_t> used = {})
      : PerParameterOptimizer<Policy>(std::move(v), std::move(state_slots), used) {
    this->by_operators_ = true;
  }
  /// Returns the text for a policy that has Adam's values and no others.
  std::string describe() const { return this->policy_values().text_of_adam() + flags(); }

 protected:
  /// Returns the text of the flags that do not have their default.
  std::string flags() const {
    std::string text;
    if constexpr (requires(const Policy& v) { v.decoupled_weight_decay; })
      if (this->values.decoupled_weight_decay) text += ", decoupled_weight_decay";
    return text + (this->values.maximize ? ", maximize" : "");
  }
  /// Does what `prepare_buckets` does, with scratch for `count` tensors like a parameter.
  void prepare_scratch(const Masters& masters, const StepGradients& gradients, const RateRef& rate,
                       std::size_t state_slots, std::int64_t count) {
    this->prepare_each(masters, gradients, rate, state_slots,
                       [count](const at::Tensor& p, const at::Tensor&) {
                         return count * Scratch::bytes(p.numel(), p.scalar_type());
                       });
  }
  /// Returns the gradient with the sign of the update, and with the weight decay added to it, as in
  /// torch.optim. The caller may overwrite it.
  const at::Tensor& decayed_gradient(const ParameterUpdate& update) const {
    const at::Tensor& g = signed_gradient(update);
    if (update.weight_decay() != 0) g.add_(update.parameter(), update.weight_decay());
    return g;
  }
  /// Does what `decayed_gradient` does. If `decoupled`, the parameter itself decays instead.
  template <class Number>
  const at::Tensor& decay(const ParameterUpdate& update, const Number& lr, bool decoupled) const {
    if (!decoupled) return decayed_gradient(update);
    if (update.weight_decay() != 0) update.parameter().mul_(1 - lr * update.weight_decay());
    return signed_gradient(update);
  }
  const at::Tensor& signed_gradient(const ParameterUpdate& update) const {
    const at::Tensor& g = update.gradient();
    return this->values.maximize ? g.neg_() : g;
  }
  /// Throws BadValue for a value of the policy that is negative or not finite.
  static void check_at_least_0(double value, const char* name) {
    PolicyValues::check_not_negative(value, name, "");
  }
};

/// The base if the update of an element depends on no other element: a large parameter is updated
/// in parts. The mechanism has `update_one(update, lr, step)`, whose last two arguments are doubles
/// if the host may read them, else tensors. The library's mechanisms call `update` in an .ipp, so
/// that a user's file does not compile `update_one`.
template <class Policy>
class ElementsByOperators : public ByOperators<Policy> {
 public:
  explicit ElementsByOperators(Policy v, std::vector<Slot> state_slots,
                               std::optional<std::size_t> used = {})
      : ByOperators<Policy>(std::move(v), std::move(state_slots), used) {
    this->in_parts_ = true;
  }
  void update(const Masters&, StepGradients& gradients) {
    this->update_each(gradients, [this](const ParameterUpdate& update) {
      update.with_lr_and_step([&](const auto& lr, const auto& step) {
        static_cast<const Mechanism<Policy>&>(*this).update_one(update, lr, step);
      });
    });
  }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/by_operators.ipp>
#endif
