#pragma once
// Defines the policy SGD and its mechanism.
#include <ikebana/optimizer/engine/grouped.hpp>

namespace ikebana {

/// Stochastic gradient descent with momentum. State: one buffer in the parameter's dtype if the
/// momentum of the policy, a group or the schedule is not 0. Cost: one fused operator per group;
/// with dampening, the first update on a device waits for it. Fields and defaults as
/// torch.optim.SGD.
struct SGD {
  double lr = 1e-3;                ///< learning rate; a schedule multiplies it
  double momentum = 0;             ///< decay per step of the buffer; 0: none is kept
  double dampening = 0;            ///< 1 - dampening of each gradient is added to the buffer
  double weight_decay = 0;         ///< adds weight_decay * parameter to the gradient
  bool nesterov = false;           ///< the step looks ahead; needs a momentum and no dampening
  bool maximize = false;           ///< maximises the loss instead
  std::vector<Group> groups = {};  ///< parameters with values of their own
};

template <>
struct Mechanism<SGD> : GroupedOptimizer<SGD> {
  explicit Mechanism(SGD v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_buckets(masters, gradients, rate, any_momentum(rate) ? 1 : 0, detail::fused_gradient);
    check_momenta();
  }
  void update(const Masters&, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters);

 private:
  /// Returns true for FP16 and BF16 on a CPU. LibTorch's fused SGD is wrong there from 16 elements
  /// on (LibTorch 2.11).
  static bool fused_is_wrong(const at::Tensor& p);
  void update_by_operators(const Bucket& b, const std::optional<at::Tensor>& divisor,
                           const std::optional<at::Tensor>& found_inf) const;
  void add_momentum(const Bucket& b, const at::Tensor& buffer, const at::Tensor& g) const;
  void check_values() const;
  /// Throws BadValue for momenta of this step, which groups and the schedule may change.
  void check_momenta();
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/sgd.ipp>
#endif
