#pragma once
// The policy Adam and its mechanism.
#include <array>
#include <ikebana/optimizer/adam_family.hpp>

namespace ikebana {

/// Adam, with weight decay added to the gradient. State: two moments in the parameter's dtype
/// (three with amsgrad) and one step count. Cost: one fused operator per group. Fields and defaults
/// as torch.optim.Adam. Source: Kingma and Ba, arXiv:1412.6980.
struct Adam {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  std::vector<Group> groups = {};
};

template <std::same_as<Adam> Policy>
struct Mechanism<Policy> : detail::AdamFamily<Adam> {
  using AdamFamily::AdamFamily;
  void update(const Masters&, StepGradients& gradients) noexcept {
    update_with(gradients, [](auto&&... args) { at::_fused_adam_(args...); });
  }
};

}  // namespace ikebana
