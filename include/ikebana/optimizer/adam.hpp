#pragma once
// Defines the policy Adam and its mechanism.
#include <array>
#include <ikebana/optimizer/engine/adam_family.hpp>

namespace ikebana {

/// Adam, with weight decay added to the gradient. State: two moments in the parameter's dtype
/// (three with amsgrad) and one step count. Cost: one fused operator per group. Fields and defaults
/// as torch.optim.Adam. Source: Kingma and Ba, arXiv:1412.6980.
struct Adam {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 0;                     ///< adds weight_decay * parameter to the gradient
  bool amsgrad = false;                        ///< divides by the largest second moment so far
  bool maximize = false;                       ///< maximises the loss instead
  std::vector<Group> groups = {};              ///< parameters with values of their own
};

template <>
struct Mechanism<Adam> : detail::AdamFamily<Adam> {
  explicit Mechanism(Adam v);
  void update(const Masters&, StepGradients& gradients) noexcept;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adam.ipp>
#endif
