#pragma once
// What the precisions without a loss scale share.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// A loss that is not finite makes no update: an error at once on CPU; on a device the update is
/// left out there, and the error follows with the next step.
struct FiniteLoss : Hooks {
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks& ranks, DeferredCheck& deferred) {
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
