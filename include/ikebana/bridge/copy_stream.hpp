#pragma once
// Copies to and from an accelerator on streams of their own: they overlap with what the device
// computes, and one of a batch from pageable memory, for which the host waits, does not wait for
// it.

#include <array>
#include <ikebana/detail/torch.hpp>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace ikebana::bridge {

/// True for devices with streams, events and memory that is kept for the streams that use it.
inline bool has_copy_streams(c10::Device device) {
  return device.is_cuda() || device.is_xpu() || device.is_privateuseone();
}

/// What is copied on a stream of its own.
enum class CopyStream { Batches, ToHost, ToDevice };

/// The stream of this process on which these are copied to or from `device`, which has an index.
/// Made at the first call. A template, as CopyToDevice, so that only files that copy compile it.
template <class = void>
c10::Stream copy_stream(c10::Device device, CopyStream what) {
  static std::mutex mutex;
  static auto& streams =
      *new std::unordered_map<c10::Device, std::array<std::optional<c10::Stream>, 3>>;
  std::lock_guard lock(mutex);
  auto& stream = streams[device][static_cast<std::size_t>(what)];
  if (!stream) stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return *stream;
}

/// The copies of one batch. What the current stream of the device computes after `finish` sees
/// them; their memory is reused only after that work.
template <class = void>
class CopyToDevice {
 public:
  /// `device` has an index and copy streams.
  explicit CopyToDevice(c10::Device device)
      : copies_(copy_stream(device, CopyStream::Batches)),
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
    copied.record(copy_stream(device, CopyStream::Batches));
    copied.synchronize();
  }

 private:
  c10::Stream copies_, computes_;
  bool any_ = false;
};

}  // namespace ikebana::bridge
