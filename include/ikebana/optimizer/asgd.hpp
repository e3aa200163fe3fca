#pragma once
// The policy ASGD and its mechanism.
#include <ikebana/optimizer/by_operators.hpp>

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

template <std::same_as<ASGD> Policy>
struct Mechanism<Policy> : detail::ElementsByOperators<ASGD> {
  explicit Mechanism(ASGD v)
      : ElementsByOperators(std::move(v), {{"ax"}, detail::number_slot("eta", 0)}) {
    check_values();
  }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 1);
  }
  template <class Number>
  void update_one(const detail::ParameterUpdate& update, const Number& lr,
                  const Number& step) const {
    const at::Tensor &p = update.parameter(), &g = decayed_gradient(update),
                     &average = update.state(0), &eta = update.state(1);
    start(eta, lr, step);
    const Number size = detail::as_number(eta, lr);
    p.mul_(1 - values.lambd * size);
    detail::add_scaled(p, g, -size, g);
    add_to_average(average, p, step, update.scratch.like(p));
    eta.copy_(detail::operand(lr / detail::power(1 + values.lambd * lr * step, values.alpha)));
  }
  std::string describe() const {
    return detail::named_values("lr", values.lr, "lambd", values.lambd, "alpha", values.alpha, "t0",
                                values.t0, "weight_decay", values.weight_decay) +
           flags();
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  /// The first step has the rate itself.
  static void start(const at::Tensor& eta, double lr, double step) {
    if (step == 1) eta.fill_(lr);
  }
  static void start(const at::Tensor& eta, const at::Tensor& lr, const at::Tensor& step) {
    eta.copy_(at::where(step == 1, lr.to(at::kFloat), eta));
  }
  /// The weight is that of the step before, in Float as PyTorch keeps it.
  void add_to_average(const at::Tensor& average, const at::Tensor& p, double step,
                      at::Tensor spare) const {
    const auto weight = static_cast<float>(step == 1 ? 1 : 1 / std::max(1.0, step - 1 - values.t0));
    if (weight == 1) average.copy_(p);
    else average.add_(at::sub_out(spare, p, average).mul_(double{weight}));
  }
  void add_to_average(const at::Tensor& average, const at::Tensor& p, const at::Tensor& step,
                      at::Tensor spare) const {
    const at::Tensor weight = (step - (1 + values.t0)).clamp_min(1).reciprocal();
    average.add_(at::sub_out(spare, p, average).mul_(at::where(step == 1, 1, weight)));
  }
  void check_values() const {
    check_rate();
    check(std::isfinite(values.lambd + values.alpha + values.t0), [&] {
      return "lambd is " + c10::str(values.lambd) + ", alpha " + c10::str(values.alpha) +
             " and t0 " + c10::str(values.t0) + "; they must be finite.";
    });
  }
};

}  // namespace ikebana
