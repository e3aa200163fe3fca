#pragma once
// Resolves a device without an index, such as `cuda`, to a device with one.

#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// `device` with its index; without one, the calling thread's current device of that type. Costs a
/// look-up.
inline c10::Device with_index(c10::Device device) {
  if (device.is_cpu() || device.has_index() || !at::isAccelerator(device.type())) return device;
  return {device.type(), at::accelerator::getDeviceIndex()};
}

/// Waits until the device has computed everything.
inline void synchronize(c10::Device device) {
  if (!device.is_cpu())
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace ikebana::bridge
