#pragma once
#include <ikebana/data/loader_core.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool pins_memory(bool asked_for) {
  if (!asked_for) return false;
  const auto device = at::getAccelerator();
  if (device && at::globalContext().getAcceleratorHooksInterface(*device).isAvailable())
    return true;
  TORCH_WARN(
      "DataLoader: pin_memory is true, and there is no device: memory is not pinned. "
      "Leave pin_memory out.");
  return false;
}

}  // namespace ikebana::detail
