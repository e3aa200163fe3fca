#pragma once
// Copies between a device and memory of the host, on streams of their own, which overlap with what
// the device computes.

#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/detail/without_values.hpp>
#include <memory>

namespace ikebana::bridge {

/// A point of a stream's work. Nothing on a device without streams, whose copies are made at once.
class StreamPoint {
 public:
  StreamPoint() = default;
  /// What the stream has been given until now.
  explicit StreamPoint(const c10::Stream& stream)
      : event_(std::make_shared<c10::Event>(stream.device_type())) {
    event_->record(stream);
  }
  bool is_reached() const { return !event_ || event_->query(); }
  /// What the stream is given from now on begins after this point.
  void hold(const c10::Stream& stream) const {
    if (event_) stream.wait(*event_);
  }
  /// The host waits.
  void synchronize() const {
    if (event_) event_->synchronize();
  }
  /// The same where nothing may throw: a device that cannot be used any more uses no memory.
  void synchronize_quietly() const noexcept {
    try {
      synchronize();
    } catch (...) {
    }
  }
  explicit operator bool() const { return event_ != nullptr; }

 private:
  std::shared_ptr<c10::Event> event_;
};

/// Copies of one trainer between its device and the host, each direction on a stream that all
/// trainers of the device share. On a device without streams, as a CPU, a copy is made when it is
/// asked for. A template, so that only files that offload compile it.
template <class = void>
class HostCopies {
 public:
  /// `device` has an index, or is a CPU. Of tensors without values there is nothing to copy.
  explicit HostCopies(c10::Device device) : device_(device) {
    if (!has_copy_streams(device) || ikebana::detail::without_values()) return;
    to_host_ = stream(device, /*to_host=*/true);
    to_device_ = stream(device, /*to_host=*/false);
  }
  c10::Device device() const { return device_; }
  /// True where copies overlap with what the device computes.
  bool overlap() const { return to_host_.has_value(); }

  /// Uninitialised memory of the host for copies: pinned where copies overlap.
  at::Tensor host_memory(at::IntArrayRef sizes, at::IntArrayRef strides,
                         at::ScalarType type) const {
    const auto options = at::TensorOptions(at::kCPU).dtype(type);
    return at::empty_strided(sizes, strides, overlap() ? options.pinned_memory(true) : options);
  }
  /// Copies what the current stream has computed until now. Both tensors must be kept until the
  /// copy is made, or, that of the device, until its stream is held until then.
  StreamPoint to_host(const at::Tensor& on_host, const at::Tensor& source,
                      const StreamPoint& after = {}) const {
    return copy(on_host, source, to_host_, after);
  }
  /// Copies into memory of the device, which the current stream may have used until now.
  StreamPoint to_device(const at::Tensor& on_device, const at::Tensor& source,
                        const StreamPoint& after = {}) const {
    return copy(on_device, source, to_device_, after);
  }
  /// What the device computes from now on begins after this point.
  void hold(const StreamPoint& point) const {
    if (point) point.hold(computes());
  }
  /// The same where nothing may throw.
  void hold_quietly(const StreamPoint& point) const noexcept {
    try {
      hold(point);
    } catch (...) {
      point.synchronize_quietly();
    }
  }

 private:
  static c10::Stream stream(c10::Device device, bool to_host) {
    struct Both {
      c10::Stream to_host, to_device;
    };
    static std::mutex mutex;
    static auto& streams = *new std::unordered_map<c10::Device, Both>;
    const std::lock_guard lock(mutex);
    auto found = streams.find(device);
    if (found == streams.end()) {
      const c10::impl::VirtualGuardImpl implementation(device.type());
      found = streams
                  .emplace(device, Both{implementation.getStreamFromGlobalPool(device),
                                        implementation.getStreamFromGlobalPool(device)})
                  .first;
    }
    return to_host ? found->second.to_host : found->second.to_device;
  }
  c10::Stream computes() const {
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }
  StreamPoint copy(const at::Tensor& to, const at::Tensor& from,
                   const std::optional<c10::Stream>& on, const StreamPoint& after) const {
    const at::NoGradGuard no_grad;
    if (!on) {
      to.copy_(from);
      return {};
    }
    StreamPoint(computes()).hold(*on);
    after.hold(*on);
    {
      const c10::StreamGuard guard(*on);
      to.copy_(from, /*non_blocking=*/true);
    }
    return StreamPoint(*on);
  }

  c10::Device device_;
  std::optional<c10::Stream> to_host_, to_device_;
};

}  // namespace ikebana::bridge
