#pragma once
// The base of the precisions without a loss scale.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Rejects the update if the loss is not finite. On a CPU the step throws NonFinite; on a device
/// the update is skipped there, and the next step throws.
struct FiniteLoss : PrecisionHooks {
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks& ranks,
              DeferredCheck& deferred) {
    auto raise = [] {
      throw NonFinite(
          "step: the loss is not finite; nothing was updated. Lower the learning rate, clip "
          "gradients (ClipGradNorm), or look for an invalid value in the batch.");
    };
    if (loss.readable() && ranks.ranks() == 1) {
      if (!loss.is_finite()) raise();
      return;
    }
    at::Tensor flag = ranks.sum(loss.non_finite()).clamp_max(1);
    gradients.reject(flag);
    deferred.expect_zero(flag, raise);
  }
};

}  // namespace ikebana::detail
