#pragma once
// What BF16 and FP16 share: weights rest in FP32, and autocast chooses the numbers of each
// operator.
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/precision/finite_loss.hpp>

namespace ikebana::detail {

/// Forward under autocast, as torch.autocast(device_type, dtype) around the loss.
template <at::ScalarType Type>
struct Autocast : FiniteLoss {
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

}  // namespace ikebana::detail
