#pragma once
// Defines the policy ASGD and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Stochastic gradient descent with a decreasing rate, and the average of the parameters from step
/// `t0` on, which is in the state as `ax` and which no step uses. State: the average in the
/// parameter's dtype, one step count and one number for each parameter. Cost: five operators for
/// each parameter, and the copies by which an update is undone. Each step uses the rate of the step
/// before, as in PyTorch. Fields and defaults as torch.optim.ASGD. Source: Polyak and Juditsky,
/// SIAM Journal on Control and Optimization 30(4), 1992.
struct ASGD {
  double lr = 1e-2;                ///< learning rate; a schedule multiplies it
  double lambd = 1e-4;             ///< shrinks the parameter by lambd * rate; slows the rate
  double alpha = 0.75;             ///< power with which the rate falls
  double t0 = 1e6;                 ///< step from which the average is taken
  double weight_decay = 0;         ///< adds weight_decay * parameter to the gradient
  bool maximize = false;           ///< maximises the loss instead
  std::vector<Group> groups = {};  ///< parameters with values of their own
};

template <>
struct Mechanism<ASGD> : detail::ElementsByOperators<ASGD> {
  explicit Mechanism(ASGD v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 1);
  }
  void update(const Masters& masters, StepGradients& gradients);
  template <class Number>
  void update_one(const ParameterUpdate& update, const Number& lr, const Number& step) const {
    const at::Tensor &p = update.parameter(), &g = decayed_gradient(update),
                     &average = update.state(0), &eta = update.state(1);
    start(eta, lr, step);
    const Number size = detail::as_number(eta, lr);
    p.mul_(1 - values.lambd * size);
    detail::add_scaled(p, g, -size, g);
    add_to_average(average, p, step, update.scratch.like(p));
    eta.copy_(detail::operand(lr / detail::power(1 + values.lambd * lr * step, values.alpha)));
  }
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  /// Sets `eta` to the rate in the first step.
  static void start(const at::Tensor& eta, double lr, double step);
  static void start(const at::Tensor& eta, const at::Tensor& lr, const at::Tensor& step);
  /// Uses the weight of the step before, in Float as PyTorch keeps it.
  void add_to_average(const at::Tensor& average, const at::Tensor& p, double step,
                      at::Tensor spare) const;
  void add_to_average(const at::Tensor& average, const at::Tensor& p, const at::Tensor& step,
                      at::Tensor spare) const;
  void check_values() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/asgd.ipp>
#endif
