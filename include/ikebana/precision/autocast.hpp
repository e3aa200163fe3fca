#pragma once
// The base of the precisions with autocast, which chooses a dtype for each operator.
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/precision/finite_loss.hpp>

namespace ikebana::detail {

/// Runs forward under autocast, as torch.autocast(device_type, dtype) around the loss does.
template <at::ScalarType Type>
struct Autocast : FiniteLoss {
  c10::Device device = at::kCPU;

  void attach(c10::Device d, const UnitTable&) {
    device = d;
    if (!at::autocast::is_autocast_available(device.type()))
      throw BadValue("Precision: autocast does not support the device " + device.str() +
                     ". Leave Precision out to compute in FP32.");
  }
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    bridge::AutocastScope scope(device.type(), Type);
    return next();
  }
};

}  // namespace ikebana::detail
