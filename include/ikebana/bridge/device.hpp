#pragma once
// Resolves a device without an index, such as `cuda`, to a device with one (`with_index`), and
// waits for a device (`synchronize`).

#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// Returns `device` with its index. If it has none, the index is the calling thread's current
/// device of that type. Costs a look-up.
c10::Device with_index(c10::Device device);

/// Waits until the device has computed everything.
void synchronize(c10::Device device);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/device.ipp>
#endif
