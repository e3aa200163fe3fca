#pragma once
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE c10::Device with_index(c10::Device device) {
  if (device.is_cpu() || device.has_index() || !at::isAccelerator(device.type())) return device;
  return {device.type(), at::accelerator::getDeviceIndex()};
}

IKEBANA_INLINE void synchronize(c10::Device device) {
  if (!device.is_cpu())
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace ikebana::bridge
