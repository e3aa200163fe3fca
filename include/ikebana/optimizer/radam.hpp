#pragma once
// Defines the policy RAdam and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Adam that divides by the second moment only after it is known well enough, and then by a factor
/// that grows to 1: no warm-up is needed. State: two moments in the parameter's dtype and one step
/// count. Cost: nine operators for each parameter, and the copies by which an update is undone.
/// Fields and defaults as torch.optim.RAdam. Source: Liu et al., arXiv:1908.03265.
struct RAdam {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 0;                     ///< adds weight_decay * parameter to the gradient
  bool decoupled_weight_decay = false;         ///< weight_decay as AdamW has it
  bool maximize = false;                       ///< maximises the loss instead
  std::vector<Group> groups = {};              ///< parameters with values of their own
};

namespace detail {

/// Multiplies the change by `factor * inverse` if the moving average is long enough, which only the
/// device knows if there is one.
void rectify(at::Tensor& change, const at::Tensor& inverse, double length, double factor);
void rectify(at::Tensor& change, at::Tensor& inverse, const at::Tensor& length,
             const at::Tensor& factor);

}  // namespace detail

template <>
struct Mechanism<RAdam> : detail::ElementsByOperators<RAdam> {
  explicit Mechanism(RAdam v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 2);
  }
  void update(const Masters& masters, StepGradients& gradients);
  template <class Number>
  void update_one(const ParameterUpdate& update, const Number& lr, const Number& step) const {
    const at::Tensor &p = update.parameter(), &first = update.state(0), &second = update.state(1);
    const at::Tensor& g = decay(update, lr, values.decoupled_weight_decay);
    const double beta1 = update.betas()[0], beta2 = update.betas()[1];
    const Number correction1 = detail::bias_correction(beta1, step),
                 correction2 = detail::bias_correction(beta2, step);
    at::Tensor change = update.scratch.like(p), inverse = update.scratch.like(p);
    first.lerp_(g, 1 - beta1);
    second.mul_(beta2).addcmul_(g, g, 1 - beta2);
    at::div_out(change, first, detail::operand(correction1)).mul_(lr);
    at::sqrt_out(inverse, second).add_(update.eps()).reciprocal_();
    inverse.mul_(detail::power(correction2, 0.5));
    // The length of the moving average's memory, at the end and now, which is a difference of two
    // numbers near 2000.
    const double end = 2 / (1 - beta2) - 1;
    const auto steps = detail::exact(step);
    const auto power2 = detail::power(beta2, steps);
    const auto now = end - 2 * steps * power2 / (1 - power2);
    const auto factor = (now - 4) * (now - 2) * end / ((end - 4) * (end - 2) * now);
    detail::rectify(change, inverse, now, detail::power(factor, 0.5));
    p.sub_(change);
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  void check_values() const { check_rate(), check_betas(), check_eps(); }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/radam.ipp>
#endif
