#pragma once
// What BF16 and FP16 share: weights rest in FP32, and autocast chooses the numbers of each
// operator.
#include <ikebana/bridge/ambient.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Forward under autocast, as torch.autocast(device_type, dtype) around the loss.
template <at::ScalarType Type>
struct Autocast : Hooks {
  c10::Device device = at::kCPU;

  void attach(c10::Device where, const UnitTable&) {
    device = where;
    if (!at::autocast::is_autocast_available(device.type()))
      throw BadValue("Precision: autocast does not know the device " + device.str() +
                     ". Leave Precision out to compute in FP32.");
  }
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    bridge::AutocastScope scope(device.type(), Type);
    return next();
  }
};

/// A loss that is not finite makes no update: an error at once on CPU; on a device the update is
/// left out there, and the error follows with the next step.
template <class Ranks>
void accept_finite(StepGradients& gradients, const at::Tensor& loss, Ranks& ranks, Later& later) {
  auto raise = [] {
    throw NonFinite(
        "step: the loss is not finite; nothing was updated. Lower the learning rate, clip "
        "gradients (ClipGradNorm), or look for an invalid value in the batch.");
  };
  if (readable(loss) && ranks.ranks() == 1) {
    if (!std::isfinite(number(loss))) raise();
    return;
  }
  at::Tensor flag = ranks.sum(loss.isfinite().logical_not().to(at::kFloat)).clamp_max(1);
  gradients.reject(flag);
  later.expect_zero(flag, raise);
}

}  // namespace ikebana::detail
