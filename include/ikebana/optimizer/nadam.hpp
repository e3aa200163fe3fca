#pragma once
// Defines the policy NAdam and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Adam with Nesterov's momentum, which grows from half of `betas[0]` to `betas[0]`. State: two
/// moments in the parameter's dtype, one step count and one number for each parameter. Cost: eight
/// operators for each parameter, and the copies by which an update is undone. Fields and defaults
/// as torch.optim.NAdam. Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016.
struct NAdam {
  double lr = 2e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 0;                     ///< adds weight_decay * parameter to the gradient
  double momentum_decay = 4e-3;                ///< the speed with which the momentum grows to
                                               ///< betas[0]
  bool decoupled_weight_decay = false;         ///< weight_decay as AdamW has it
  bool maximize = false;                       ///< maximises the loss instead
  std::vector<Group> groups = {};              ///< parameters with values of their own
};

template <>
struct Mechanism<NAdam> : detail::ElementsByOperators<NAdam> {
  explicit Mechanism(NAdam v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 3, 1);
  }
  void update(const Masters& masters, StepGradients& gradients);
  template <class Number>
  void update_one(const ParameterUpdate& update, const Number& lr, const Number& step) const {
    const at::Tensor &p = update.parameter(), &first = update.state(0), &second = update.state(1);
    const at::Tensor& g = decay(update, lr, values.decoupled_weight_decay);
    const double beta1 = update.betas()[0], beta2 = update.betas()[1];
    const Number mu = momentum_of(beta1, step), next_mu = momentum_of(beta1, step + 1);
    update.state(2).mul_(mu);
    const Number product = detail::as_number(update.state(2), lr);
    at::Tensor root = update.scratch.like(p);
    first.lerp_(g, 1 - beta1);
    second.mul_(beta2).addcmul_(g, g, 1 - beta2);
    const Number correction = detail::bias_correction(beta2, step);
    at::div_out(root, second, detail::operand(correction)).sqrt_().add_(update.eps());
    detail::add_quotient(p, g, root, -lr * (1 - mu) / (1 - product), g);
    detail::add_quotient(p, first, root, -lr * next_mu / (1 - product * next_mu), g);
  }
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 3); }

 private:
  template <class Number>
  Number momentum_of(double beta1, const Number& step) const {
    return beta1 * (1 - 0.5 * detail::power(0.96, step * values.momentum_decay));
  }
  void check_values() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/nadam.ipp>
#endif
