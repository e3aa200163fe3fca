#pragma once
// Defines the policy Adamax and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Adam with the largest magnitude of recent gradients in place of the root of their squares.
/// State: two tensors in the parameter's dtype and one step count. Cost: six operators for each
/// parameter, and the copies by which an update is undone. Fields and defaults as
/// torch.optim.Adamax. Source: Kingma and Ba, arXiv:1412.6980, section 7.1.
struct Adamax {
  double lr = 2e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the moment and of magnitudes, in [0, 1)
  double eps = 1e-8;                           ///< added to each magnitude
  double weight_decay = 0;                     ///< adds weight_decay * parameter to the gradient
  bool maximize = false;                       ///< maximises the loss instead
  std::vector<Group> groups = {};              ///< parameters with values of their own
};

template <>
struct Mechanism<Adamax> : detail::ElementsByOperators<Adamax> {
  explicit Mechanism(Adamax v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 1);
  }
  void update(const Masters& masters, StepGradients& gradients);
  template <class Number>
  void update_one(const ParameterUpdate& update, const Number& lr, const Number& step) const {
    const at::Tensor &p = update.parameter(), &first = update.state(0);
    const at::Tensor& g = decayed_gradient(update);
    at::Tensor largest = update.state(1), size = update.scratch.like(p);
    first.lerp_(g, 1 - update.betas()[0]);
    largest.mul_(update.betas()[1]);
    at::maximum_out(largest, largest, at::abs_out(size, g).add_(update.eps()));
    const Number correction = detail::bias_correction(update.betas()[0], step);
    detail::add_quotient(p, first, largest, -(lr / correction), size);
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  void check_values() const { check_rate(), check_betas(), check_eps(); }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adamax.ipp>
#endif
