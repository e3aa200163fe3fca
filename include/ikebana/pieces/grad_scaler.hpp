#pragma once
// A dynamic loss scale in a loop without a trainer.
#include <ikebana/pieces/own_loop.hpp>
#include <ikebana/precision/fp16.hpp>

namespace ikebana::pieces {

/// The loss scale of `Precision<FP16>`, with the calls of torch.amp.GradScaler, once per step and
/// in this order: `scale`, perhaps `unscale`, `step`, `update`. It casts nothing: forward runs
/// under an AutocastScope to FP16. Cost: two passes over the gradients; `step` waits for the
/// device. Throws NonFinite if more than `max_skips` steps in a row have overflowed. Its state is
/// `loss_scale()`, with which another one can begin as `init_scale`.
class GradScaler {
 public:
  /// Takes its numbers from the policy; `cpu_products` has no effect.
  explicit GradScaler(Precision<FP16> values = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  /// Returns the loss, of one element, times the scale, in FP32 at least; call its `backward`.
  at::Tensor scale(const at::Tensor& loss);
  /// Divides the gradients of these parameters, which are all that the optimizer updates, by the
  /// scale in place, and looks for values that are not finite. Call it before `step` if the
  /// gradients are to be clipped or read. Throws Error if there is no gradient, or in a second call
  /// of a step.
  void unscale(const Tensors& parameters);
  /// Calls `unscale` if that was not done in this step, and `optimizer.step()` unless a gradient
  /// has overflowed; returns whether it did. The optimizer is one of torch::optim or of `pieces`.
  template <class Optimizer>
  bool step(Optimizer& optimizer) {
    if (!is_unscaled_) unscale(parameters_of(optimizer));
    const bool is_finite = ikebana::detail::number(gradients_.found_inf) == 0;
    if (is_finite) optimizer.step();
    return is_finite;
  }
  /// Sets the scale of the next step. Throws Error if nothing was unscaled in this step.
  void update();
  /// The scale of the present step. Waits for the device.
  double loss_scale() const;

 private:
  template <class Optimizer>
  static Tensors parameters_of(Optimizer& optimizer) {
    Tensors all;
    if constexpr (requires { optimizer.param_groups(); }) {
      for (auto& group : optimizer.param_groups())
        all.insert(all.end(), group.params().begin(), group.params().end());
    } else {
      all = optimizer.parameters();
    }
    return all;
  }

  Mechanism<Precision<FP16>> mechanism_;
  DeferredCheck deferred_;
  StepGradients gradients_;  // the present step's, from `unscale` to `update`
  bool is_attached_ = false, is_unscaled_ = false;
};

}  // namespace ikebana::pieces

#ifndef IKEBANA_COMPILED
#include <ikebana/pieces/impl/grad_scaler.ipp>
#endif
