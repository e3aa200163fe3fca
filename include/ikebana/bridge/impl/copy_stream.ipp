#pragma once
#include <array>
#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/detail/form.hpp>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace ikebana::bridge {

IKEBANA_INLINE bool has_copy_streams(c10::Device device) {
  return device.is_cuda() || device.is_xpu() || device.is_privateuseone();
}

IKEBANA_INLINE c10::Stream copy_stream(c10::Device device, CopyStream what) {
  static std::mutex mutex;
  static auto& streams =
      *new std::unordered_map<c10::Device, std::array<std::optional<c10::Stream>, 3>>;
  std::lock_guard lock(mutex);
  auto& stream = streams[device][static_cast<std::size_t>(what)];
  if (!stream) stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return *stream;
}

IKEBANA_INLINE at::Tensor CopyToDevice::operator()(const at::Tensor& t) {
  if (!t.is_cpu() || t.layout() != at::kStrided)
    return t.to(computes_.device(), /*non_blocking=*/true);
  at::Tensor there;
  {
    const c10::StreamGuard guard(copies_);
    there = t.to(computes_.device(), /*non_blocking=*/true);
  }
  there.record_stream(computes_);
  any_ = true;
  return there;
}

IKEBANA_INLINE void CopyToDevice::finish() {
  if (!any_) return;
  c10::Event copied(copies_.device_type());
  copied.record(copies_);
  computes_.wait(copied);
}

IKEBANA_INLINE void CopyToDevice::wait(c10::Device device) {
  c10::Event copied(device.type());
  copied.record(copy_stream(device, CopyStream::Batches));
  copied.synchronize();
}

}  // namespace ikebana::bridge
