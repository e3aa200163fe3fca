#pragma once
// Defines the policy Rprop and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Resilient backpropagation, for gradients of all data at once: each element has a step size,
/// which grows by `etas[1]` while the gradient keeps its sign and shrinks by `etas[0]` when the
/// sign changes. `lr` is the size of the first step only. State: two tensors in the parameter's
/// dtype. Cost: fifteen operators for each parameter, and the copies by which an update is undone.
/// Fields and defaults as torch.optim.Rprop. Source: Riedmiller and Braun, IEEE International
/// Conference on Neural Networks, 1993.
struct Rprop {
  double lr = 1e-2;  ///< the first step of each element
  /// Factors of the step size if the sign changes, and if it stays.
  std::array<double, 2> etas = {0.5, 1.2};
  std::array<double, 2> step_sizes = {1e-6, 50};  ///< least and largest step of an element
  bool maximize = false;                          ///< maximises the loss instead
  std::vector<Group> groups = {};                 ///< parameters with values of their own
};

template <>
struct Mechanism<Rprop> : detail::ElementsByOperators<Rprop> {
  explicit Mechanism(Rprop v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 2);
  }
  void update(const Masters& masters, StepGradients& gradients);
  template <class Number>
  void update_one(const ParameterUpdate& update, const Number& lr, const Number& step) const {
    start(update.state(1), lr, step);
    const at::Tensor &p = update.parameter(), &g = signed_gradient(update),
                     &before = update.state(0), &sizes = update.state(1);
    at::Tensor factor = update.scratch.like(p),
               mask = update.scratch.allocate(p.sizes(), at::kBool);
    at::mul_out(factor, g, before).sign_();
    factor.masked_fill_(at::gt_out(mask, factor, 0), values.etas[1]);
    factor.masked_fill_(at::lt_out(mask, factor, 0), values.etas[0]);
    factor.masked_fill_(at::eq_out(mask, factor, 0), 1);
    at::eq_out(mask, factor, values.etas[0]);
    factor.add_(g, 0);  // makes it NaN if the gradient was not finite: the sign of NaN is
    sizes.mul_(factor).clamp_(values.step_sizes[0], values.step_sizes[1]);
    g.masked_fill_(mask, 0);
    p.addcmul_(at::sign_out(factor, g), sizes, -1);
    before.copy_(g);
  }
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  static void start(const at::Tensor& sizes, double lr, double step);
  static void start(at::Tensor sizes, const at::Tensor& lr, const at::Tensor& step);
  void check_values() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/rprop.ipp>
#endif
