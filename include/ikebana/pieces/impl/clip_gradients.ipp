#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/pieces/clip_gradients.hpp>
#include <ikebana/pieces/own_loop.hpp>

namespace ikebana::pieces {

IKEBANA_INLINE at::Tensor clip_gradients(const Tensors& parameters, const ClipGradNorm& clip) {
  const at::NoGradGuard no_grad;
  const OneRank ranks;
  Mechanism<ClipGradNorm> mechanism(clip);
  DeferredCheck deferred;
  StepGradients gradients;
  gradients.collect(parameters);
  mechanism.clip(gradients, ranks);
  mechanism.accept(gradients, LossValue(), ranks, deferred);
  ikebana::detail::settle_finite_checks(gradients, deferred);
  deferred.check(), deferred.check();  // the second one reads what the first one may not wait for
  ikebana::detail::finish_gradients(gradients, parameters);
  return gradients.norm;
}

IKEBANA_INLINE void clip_gradients(const Tensors& parameters, const ClipGradValue& clip) {
  const at::NoGradGuard no_grad;
  const OneRank ranks;
  StepGradients gradients;
  gradients.collect(parameters);
  Mechanism<ClipGradValue>(clip).clip(gradients, ranks);
  ikebana::detail::finish_gradients(gradients, parameters);
}

}  // namespace ikebana::pieces
