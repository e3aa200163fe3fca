#pragma once
// Batches in pinned memory.
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

/// Whether batches are to be pinned: if asked for, and there is a device for which memory can be.
inline bool pins_memory(bool asked_for) {
  if (!asked_for) return false;
  const auto device = at::getAccelerator();
  if (device && at::globalContext().getAcceleratorHooksInterface(*device).isAvailable())
    return true;
  TORCH_WARN(
      "DataLoader: pin_memory is true, and there is no device: memory is not pinned. "
      "Leave pin_memory out.");
  return false;
}

/// Copies the tensors of a batch to pinned memory. Sparse tensors, and those on a device, stay.
template <class Batch>
void pin(Batch& batch) {
  for_each_tensor(batch, [](at::Tensor& t) {
    if (t.defined() && t.is_cpu() && t.layout() == at::kStrided) t = t.pin_memory();
  });
}

}  // namespace ikebana::detail
