#pragma once
// Defines the policy AdamW and its mechanism.
#include <array>
#include <ikebana/optimizer/engine/adam_family.hpp>

namespace ikebana {

/// Adam with decoupled weight decay. State: two moments in the parameter's dtype (three with
/// amsgrad) and one step count. Cost: one fused operator per group. Fields and defaults as
/// torch.optim.AdamW.
/// Source: Loshchilov and Hutter, arXiv:1711.05101.
struct AdamW {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 1e-2;                  ///< decoupled: takes lr * weight_decay * parameter
  bool amsgrad = false;                        ///< divides by the largest second moment so far
  bool maximize = false;                       ///< maximises the loss instead
  std::vector<Group> groups = {};              ///< parameters with values of their own
};

template <>
struct Mechanism<AdamW> : detail::AdamFamily<AdamW> {
  explicit Mechanism(AdamW v);
  void update(const Masters&, StepGradients& gradients) noexcept;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adamw.ipp>
#endif
