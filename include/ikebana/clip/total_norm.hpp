#pragma once
// Computes and checks the norm of all gradients, for ClipGradNorm and GradNorm.
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Computes the norm of all gradients of a step and checks that it is finite. Only the functions
/// that ask ranks are templates.
class NormOfAll : public ClipHooks {
 public:
  /// Divisors are not applied to the gradients before `clip`: the norm takes them into account.
  static constexpr bool takes_divisor = true;

  void begin(const Masters& masters) { masters_ = &masters; }
  /// If parameters are cut among ranks, the norm is over all slices.
  template <class Ranks>
  void close_step(StepGradients& gradients, Ranks& ranks) {
    if (ranks.slices().size() == 1 || gradients.squared_norm.defined()) return;
    gradients.squared_norm = squared_of_slices(gradients);
  }

 protected:
  /// `name` is the name of the policy.
  explicit NormOfAll(const char* name) : name_(name) {}

  /// Returns the norm that this policy has seen in the present step, until `accept` has checked it.
  const at::Tensor& seen_norm() const { return checked_; }
  using Sum = c10::function_ref<at::Tensor(const at::Tensor&)>;
  /// Computes the norm of the true gradients, unless a policy before this one has done so. Returns
  /// it, or an undefined tensor if there is no gradient. `is_error`: a norm that is not finite is
  /// an error.
  const at::Tensor& compute(StepGradients& gradients, bool is_whole, Sum over_slices,
                            bool is_error);
  void accept_norm(StepGradients& gradients, DeferredCheck& deferred, bool is_error);

 private:
  void set_norm(StepGradients& gradients, bool is_whole, Sum over_slices) const;
  /// Returns the gradients, with sparse ones replaced by the elements of their rows.
  Tensors elements_of_all(const Tensors& gradients) const;
  at::Tensor norm_of_all(const StepGradients& all) const;
  /// Returns the norm over the slices of this rank, which may have no gradient, in the dtype of the
  /// masters.
  at::Tensor squared_of_slices(const StepGradients& gradients) const;
  /// Computes in the gradients' dtype, as PyTorch does. Returns Double if a gradient is Double,
  /// else Float, since a divisor is made from it.
  static at::Tensor norm_of(const Tensors& gradients, StateStorage* storage);
  /// Computes at::stack, on a CPU without the dispatcher. This gives the same bits, and for a small
  /// model the dispatcher costs more than the norms.
  static at::Tensor stacked(const Tensors& norms);
  /// Finds the gradient that is not finite, for the text of an error on a CPU.
  std::string culprit(const StepGradients& gradients) const;

  const char* name_;
  at::Tensor checked_;   // the norm that this policy has seen in the present step
  std::string culprit_;  // the gradient that is not finite
  const Masters* masters_ = nullptr;
};

/// The base of policies on the norm of all gradients. A norm that is not finite rejects the update:
/// with `values.error_if_nonfinite` the step throws NonFinite, on a device a later one.
template <class Policy>
class TotalNorm : public NormOfAll {
 public:
  using carries_out = Policy;
  Policy values;
  TotalNorm(Policy v, const char* name) : NormOfAll(name), values(std::move(v)) {}

  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, DeferredCheck& deferred) {
    accept_norm(gradients, deferred, values.error_if_nonfinite);
  }

 protected:
  /// With several ranks `close_step` has usually computed the squared norm before, and the sum over
  /// ranks is part of the step's exchange (`Transaction::close`, core/transaction.hpp).
  template <class Ranks>
  const at::Tensor& compute_norm(StepGradients& gradients, Ranks& ranks) {
    auto sum = [&](const at::Tensor& t) -> at::Tensor { return ranks.slices().sum(t); };
    return compute(gradients, ranks.slices().size() == 1, sum, values.error_if_nonfinite);
  }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/total_norm.ipp>
#endif
