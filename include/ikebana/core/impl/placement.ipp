#pragma once
#include <ikebana/core/placement.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Placement::~Placement() {
  if (!reads_pinned_) return;
  try {
    bridge::CopyToDevice::wait(device_);
  } catch (const c10::Error&) {  // an error of the device, which its next use throws
  }
}

}  // namespace ikebana::detail
