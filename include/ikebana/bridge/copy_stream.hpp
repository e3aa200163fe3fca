#pragma once
// Copies of batches to an accelerator, on a stream of their own: they overlap with what the device
// computes, and a copy from pageable memory, for which the host waits, does not wait for it.

#include <ikebana/detail/torch.hpp>
#include <mutex>
#include <unordered_map>

namespace ikebana::bridge {

/// True for devices with streams, events and memory that is kept for the streams that use it.
inline bool has_copy_streams(c10::Device device) {
  return device.is_cuda() || device.is_xpu() || device.is_privateuseone();
}

/// The stream of this process on which batches are copied to `device`, which has an index. Made at
/// the first call. A template, as CopyToDevice, so that only files that move batches compile it.
template <class = void>
c10::Stream copy_stream(c10::Device device) {
  static std::mutex mutex;
  static auto& streams = *new std::unordered_map<c10::Device, c10::Stream>;
  std::lock_guard lock(mutex);
  auto found = streams.find(device);
  if (found == streams.end()) {
    const c10::impl::VirtualGuardImpl implementation(device.type());
    found = streams.emplace(device, implementation.getStreamFromGlobalPool(device)).first;
  }
  return found->second;
}

/// The copies of one batch. What the current stream of the device computes after `finish` sees
/// them; their memory is reused only after that work.
template <class = void>
class CopyToDevice {
 public:
  /// `device` has an index and copy streams.
  explicit CopyToDevice(c10::Device device)
      : copies_(copy_stream(device)),
        computes_(c10::impl::VirtualGuardImpl(device.type()).getStream(device)) {}

  /// A copy of `t` on the device. If the memory of `t` is pinned, it is read later.
  at::Tensor operator()(const at::Tensor& t) {
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
  void finish() {
    if (!any_) return;
    c10::Event copied(copies_.device_type());
    copied.record(copies_);
    computes_.wait(copied);
  }

  /// Waits until the copies so far have read the host's memory. Waits for nothing that the device
  /// computes.
  static void wait(c10::Device device) {
    c10::Event copied(device.type());
    copied.record(copy_stream(device));
    copied.synchronize();
  }

 private:
  c10::Stream copies_, computes_;
  bool any_ = false;
};

}  // namespace ikebana::bridge
