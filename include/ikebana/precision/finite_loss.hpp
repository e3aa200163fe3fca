#pragma once
// Defines the base of the precisions without a loss scale.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Rejects the update if the loss is not finite. On a CPU the step throws NonFinite; on a device
/// the update is skipped there, and a later step throws. Gradients are not checked: if the loss is
/// finite and a gradient is not, parameters become NaN, and the next step throws an error that says
/// so.
struct FiniteLoss : PrecisionHooks {
  void begin(const Masters& masters) { masters_ = &masters; }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks&, DeferredCheck& deferred) {
    accept_loss(gradients, loss, deferred);
  }

 private:
  void accept_loss(StepGradients& gradients, const LossValue& loss, DeferredCheck& deferred);
  [[noreturn]] static void raise(const Masters* masters, const std::string& where);

  const Masters* masters_ = nullptr;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/finite_loss.ipp>
#endif
