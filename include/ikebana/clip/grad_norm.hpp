#pragma once
// Defines the policy GradNorm and its mechanism.
#include <ikebana/clip/total_norm.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Reports the total 2-norm of all gradients and checks it, without clipping: without this check a
/// gradient that is not finite makes parameters NaN, although the loss of that step is finite. If
/// the norm is not finite, the step throws NonFinite, which on a CPU names a parameter; with
/// `error_if_nonfinite = false` the step makes no update. Changes no bit of an update. Cost: one
/// pass over the gradients; nothing if the recipe has ClipGradNorm, whose norm it takes. Source:
/// torch.nn.utils.get_total_norm.
struct GradNorm {
  bool error_if_nonfinite = true;  ///< false: a step whose norm is not finite is skipped
};

template <>
struct Mechanism<GradNorm> : detail::TotalNorm<GradNorm> {
  explicit Mechanism(GradNorm v) : TotalNorm(v, "GradNorm") {}

  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    compute_norm(gradients, ranks);
  }
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/grad_norm.ipp>
#endif
