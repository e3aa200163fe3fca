#pragma once
// Defines the policy Adagrad and its mechanism.
#include <ikebana/optimizer/engine/per_parameter.hpp>

namespace ikebana {

/// Divides each element's step by the root of the sum of its squared gradients so far. State: one
/// sum in the parameter's dtype and one step count. Cost: one fused operator per group on a CPU;
/// elsewhere several operators per parameter, since not every LibTorch has the fused one there.
/// Fields and defaults as torch.optim.Adagrad. Source: Duchi et al., Journal of Machine Learning
/// Research 12, 2011.
struct Adagrad {
  double lr = 1e-2;                      ///< learning rate; a schedule multiplies it
  double lr_decay = 0;                   ///< step t, from 0, has lr / (1 + t * lr_decay)
  double weight_decay = 0;               ///< adds weight_decay * parameter to the gradient
  double initial_accumulator_value = 0;  ///< initial value of the sums of squares
  double eps = 1e-10;                    ///< added to the denominator
  bool maximize = false;                 ///< maximises the loss instead
  std::vector<Group> groups = {};        ///< parameters with values of their own
};

template <>
struct Mechanism<Adagrad> : PerParameterOptimizer<Adagrad> {
  explicit Mechanism(Adagrad v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    const bool fused = is_fused(masters.values[0]);
    auto scratch = [&](const at::Tensor& p, const at::Tensor&) {
      return fused ? 0 : Scratch::bytes(p.numel(), p.scalar_type());
    };
    prepare_each(masters, gradients, rate, 1, scratch,
                 fused ? detail::fused_gradient : detail::dense_gradient);
    if (fused) keep_if_asked();
  }
  void update(const Masters& masters, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 private:
  /// Is true also while a step is recorded, since the operator itself reads the rate and the flag.
  bool is_fused(const at::Tensor& p) const { return p.is_cpu() && !as_on_device_; }
  static Slot sum_slot(const Adagrad& v);
  void update_fused(const StepGradients& gradients) noexcept;
  void check_values() const;

  double initial_;  // the value with which the state was made
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adagrad.ipp>
#endif
