#pragma once
// Defines the policy LAMB and its mechanism.
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana {

/// Adam whose change of each parameter is scaled to the norm of that parameter: for batches of tens
/// of thousands. A change is not scaled if one of the two norms is 0. State: two moments in the
/// parameter's dtype and one step count. Cost: ten operators and two norms for each parameter, and
/// the copies by which an update is undone; for slices, one sum over ranks. PyTorch has no LAMB:
/// fields and defaults are as AdamW's, except eps, and the formulas follow algorithm 2 of the
/// paper, with the identity as its function of the norm. Source: You et al., arXiv:1904.00962.
struct LAMB {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-6;                           ///< added to the denominator
  double weight_decay = 1e-2;                  ///< adds weight_decay * parameter to the change
  bool maximize = false;                       ///< maximises the loss instead
  std::vector<Group> groups = {};              ///< parameters with values of their own
};

template <>
struct Mechanism<LAMB> : detail::ByOperators<LAMB> {
  explicit Mechanism(LAMB v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 2);
  }
  void update(const Masters&, StepGradients& gradients);
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  void add_to_moments(const detail::ParameterUpdate& update) const;
  /// Returns the change of a parameter, computed from its moments, before it is scaled.
  template <class Number>
  static at::Tensor next_change(const ParameterUpdate& update, const Number& step) {
    const at::Tensor& p = update.parameter();
    at::Tensor change = update.scratch.like(p), root = update.scratch.like(p);
    const Number correction1 = detail::bias_correction(update.betas()[0], step),
                 correction2 = detail::bias_correction(update.betas()[1], step);
    at::div_out(change, update.state(0), detail::operand(correction1));
    at::div_out(root, update.state(1), detail::operand(correction2)).sqrt_().add_(update.eps());
    change.div_(root);
    if (update.weight_decay() != 0) change.add_(p, update.weight_decay());
    return change;
  }
  /// The squares of both norms are summed over ranks, and changes are computed again after that.
  void update_slices(const StepGradients& gradients);
  void check_values() const { check_rate(), check_betas(), check_eps(); }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/lamb.ipp>
#endif
