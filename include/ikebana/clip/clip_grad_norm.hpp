#pragma once
// Defines the policy ClipGradNorm and its mechanism.
#include <ikebana/clip/total_norm.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Scales all gradients so that their total 2-norm is at most `max_norm`, which must be positive.
/// Cost: one pass that computes the norm; the update divides by the factor together with its other
/// divisors. If the norm is not finite, the step throws NonFinite, which on a CPU names a
/// parameter; with `error_if_nonfinite = false` the step makes no update. The report has the norm
/// before clipping. The factor is Double if a gradient is Double, else Float. A sparse gradient
/// counts with the norm of its rows; PyTorch's function does not support sparse gradients. Source:
/// torch.nn.utils.clip_grad_norm_.
struct ClipGradNorm {
  double max_norm = 1;             ///< the largest total norm, above 0
  bool error_if_nonfinite = true;  ///< false: a step whose norm is not finite is skipped
};

template <>
struct Mechanism<ClipGradNorm> : detail::TotalNorm<ClipGradNorm> {
  explicit Mechanism(ClipGradNorm v) : TotalNorm(v, "ClipGradNorm") { check(); }

  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    check();
    const at::Tensor& norm = compute_norm(gradients, ranks);
    if (norm.defined()) gradients.divide(divisor(norm));
  }
  std::string describe() const;

 private:
  void check() const;
  /// Returns max(1, norm / max_norm), with the bits of LibTorch's operators. Does not call the
  /// dispatcher on a CPU.
  at::Tensor divisor(const at::Tensor& norm) const;
  template <class Real>
  at::Tensor factor(const at::Tensor& norm) const {
    Real factor = (static_cast<Real>(detail::number(norm)) + static_cast<Real>(1e-6)) /
                  static_cast<Real>(values.max_norm);
    return detail::scalar(factor < 1 ? 1 : factor, norm.scalar_type(), norm.device());
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/clip_grad_norm.ipp>
#endif
