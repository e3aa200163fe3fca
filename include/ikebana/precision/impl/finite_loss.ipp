#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/finite_loss.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void FiniteLoss::raise(const Masters* masters, const std::string& where) {
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

IKEBANA_INLINE void FiniteLoss::accept_loss(StepGradients& gradients, const LossValue& loss,
                                            DeferredCheck& deferred) {
  if (!loss.where.empty()) raise(masters_, loss.where);
  accept_finite_loss(gradients, loss, deferred, [masters = masters_] { raise(masters, {}); });
}

}  // namespace ikebana::detail
