#pragma once
// Batches in pinned memory.
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

/// Whether batches are to be pinned: if asked for, and there is a device for which memory can be.
bool pins_memory(bool asked_for);

/// Copies the tensors of a batch to pinned memory. Sparse tensors, and those on a device, stay.
template <class Batch>
void pin(Batch& batch) {
  for_each_tensor(batch, [](at::Tensor& t) {
    if (t.defined() && t.is_cpu() && t.layout() == at::kStrided) t = t.pin_memory();
  });
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/pinned.ipp>
#endif
