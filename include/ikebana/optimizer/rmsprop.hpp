#pragma once
// Defines the policy RMSprop and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Divides each gradient by the root of a moving average of its squares; `centered` subtracts the
/// square of the average gradient from it. State: one average in the parameter's dtype, two if
/// centered, and a buffer if a momentum is not 0. Cost: five operators for each parameter, and the
/// copies by which an update is undone. Fields and defaults as torch.optim.RMSprop. Source:
/// Tieleman and Hinton, lecture 6.5 of Neural Networks for Machine Learning, 2012; centered:
/// Graves, arXiv:1308.0850.
struct RMSprop {
  double lr = 1e-2;                ///< learning rate; a schedule multiplies it
  double alpha = 0.99;             ///< decay per step of the averages
  double eps = 1e-8;               ///< added to the denominator
  double weight_decay = 0;         ///< adds weight_decay * parameter to the gradient
  double momentum = 0;             ///< decay per step of the buffer; 0: none is kept
  bool centered = false;           ///< divides by the gradients' deviation from their average
  bool maximize = false;           ///< maximises the loss instead
  std::vector<Group> groups = {};  ///< parameters with values of their own
};

template <>
struct Mechanism<RMSprop> : detail::ElementsByOperators<RMSprop> {
  explicit Mechanism(RMSprop v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, buffers(any_momentum(rate)), 1);
  }
  void update(const Masters& masters, StepGradients& gradients);
  template <class Number>
  void update_one(const ParameterUpdate& update, const Number& lr, const Number&) const {
    const at::Tensor &p = update.parameter(), &g = decayed_gradient(update),
                     &square = update.state(0);
    at::Tensor root = update.scratch.like(p);
    square.mul_(values.alpha).addcmul_(g, g, 1 - values.alpha);
    if (values.centered) {
      const at::Tensor& average = update.state(1);
      average.lerp_(g, 1 - values.alpha);
      at::addcmul_out(root, square, average, average, -1).sqrt_();
    } else {
      at::sqrt_out(root, square);
    }
    root.add_(update.eps());
    if (update.momentum() == 0) return detail::add_quotient(p, g, root, -lr, g);
    const at::Tensor& buffer = update.state(2);
    buffer.mul_(update.momentum()).addcdiv_(g, root);
    detail::add_scaled(p, buffer, -lr, root);
  }
  std::string describe() const;
  void state(Archive& archive, const Masters& masters);

 private:
  static std::vector<Slot> state_slots(bool centered);
  static std::size_t buffers(bool with_momentum) { return with_momentum ? 3 : 2; }

  void check_values() const;

  bool centered_;  // the value with which the state was made
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/rmsprop.ipp>
#endif
