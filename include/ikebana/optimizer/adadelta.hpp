#pragma once
// Defines the policy Adadelta and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Divides each gradient by the root of a moving average of its squares, and multiplies it by the
/// root of a moving average of the squares of earlier changes. State: two averages in the
/// parameter's dtype. Cost: ten operators for each parameter, and the copies by which an update is
/// undone. Fields and defaults as torch.optim.Adadelta. Source: Zeiler, arXiv:1212.5701, whose lr
/// is 1.
struct Adadelta {
  double lr = 1;                   ///< learning rate; a schedule multiplies it
  double rho = 0.9;                ///< decay per step of both averages, in [0, 1]
  double eps = 1e-6;               ///< added under both roots
  double weight_decay = 0;         ///< adds weight_decay * parameter to the gradient
  bool maximize = false;           ///< maximises the loss instead
  std::vector<Group> groups = {};  ///< parameters with values of their own
};

template <>
struct Mechanism<Adadelta> : detail::ElementsByOperators<Adadelta> {
  explicit Mechanism(Adadelta v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 2);
  }
  void update(const Masters& masters, StepGradients& gradients);
  template <class Number>
  void update_one(const ParameterUpdate& update, const Number& lr, const Number&) const {
    const at::Tensor &p = update.parameter(), &g = decayed_gradient(update),
                     &square = update.state(0), &changes = update.state(1);
    at::Tensor root = update.scratch.like(p), change = update.scratch.like(p);
    const at::Tensor eps = detail::operand(update.eps());
    square.mul_(values.rho).addcmul_(g, g, 1 - values.rho);
    at::add_out(root, square, eps).sqrt_();
    at::add_out(change, changes, eps).sqrt_().div_(root).mul_(g);
    changes.mul_(values.rho).addcmul_(change, change, 1 - values.rho);
    detail::subtract_scaled(p, change, lr);
  }
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  void check_values() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adadelta.ipp>
#endif
