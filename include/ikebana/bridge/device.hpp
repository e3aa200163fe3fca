#pragma once
// The device that `cuda` without a number means.

#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// `device` with its number: the calling thread's current one where it names none. Costs a look-up.
inline c10::Device with_index(c10::Device device) {
  if (device.is_cpu() || device.has_index() || !at::isAccelerator(device.type())) return device;
  return {device.type(), at::accelerator::getDeviceIndex()};
}

}  // namespace ikebana::bridge
