#pragma once
// The base of the precisions without a loss scale.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Rejects the update if the loss is not finite. On a CPU the step throws NonFinite; on a device
/// the update is skipped there, and a later step throws. Gradients are not checked: with a finite
/// loss, one that is not finite makes parameters NaN, and the error of the next step says so.
struct FiniteLoss : PrecisionHooks {
  void begin(const Masters& masters) { masters_ = &masters; }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks&, DeferredCheck& deferred) {
    if (!loss.where.empty()) raise(masters_, loss.where);
    accept_finite_loss(gradients, loss, deferred, [masters = masters_] { raise(masters, {}); });
  }

 private:
  [[noreturn]] static void raise(const Masters* masters, const std::string& where) {
    const std::string what = "step: the loss is not finite" + where + "; nothing was updated. ";
    for (std::size_t i = 0; masters && i < masters->values.size(); ++i)
      if (!masters->values[i].isfinite().all().item<bool>())
        throw NonFinite(what + "The parameter `" + masters->names[i] +
                        "` is not finite either: an earlier step had a gradient that was not, and "
                        "a finite loss. Load an earlier state, and add GradNorm or ClipGradNorm to "
                        "the recipe, which throw in that step and undo it.");
    throw NonFinite(what +
                    "All parameters are finite. Lower the learning rate, clip gradients "
                    "(ClipGradNorm), or look for an invalid value in the batch.");
  }

  const Masters* masters_ = nullptr;
};

}  // namespace ikebana::detail
