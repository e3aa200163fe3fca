#pragma once
// Copies between a device and memory of the host, on streams of their own, which overlap with what
// the device computes.

#include <ikebana/detail/torch.hpp>
#include <memory>

namespace ikebana::bridge {

/// An event of a stream, as c10::Event. Without a stream, as on a CPU, none: all is done then.
class StreamEvent {
 public:
  StreamEvent() = default;
  /// Records what the stream has been given until now.
  explicit StreamEvent(const c10::Stream& stream);
  bool query() const { return !event_ || event_->query(); }
  /// What the stream is given from now on begins after the event.
  void block(const c10::Stream& stream) const;
  /// The host waits.
  void synchronize() const;
  /// The same where nothing may throw: a device that failed uses no memory any more.
  void synchronize_quietly() const noexcept;
  explicit operator bool() const { return event_ != nullptr; }

 private:
  std::shared_ptr<c10::Event> event_;
};

/// Copies of one trainer between its device and the host, each direction on a stream that all
/// trainers of the device share. On a device without streams, as a CPU, a copy is made when it is
/// asked for.
class HostCopies {
 public:
  /// `device` has an index, or is a CPU. Of tensors without values there is nothing to copy.
  explicit HostCopies(c10::Device device);
  c10::Device device() const { return device_; }
  /// True where copies overlap with what the device computes.
  bool overlap() const { return to_host_.has_value(); }

  /// Uninitialised memory of the host for copies: pinned where copies overlap.
  at::Tensor host_memory(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) const;
  /// Copies what the current stream has computed until now. Both tensors must be kept until the
  /// copy is made, or that of the device until its current stream waits for the event.
  StreamEvent to_host(const at::Tensor& on_host, const at::Tensor& source,
                      const StreamEvent& after = {}) const;
  /// Copies into memory of the device, which the current stream may have used until now.
  StreamEvent to_device(const at::Tensor& on_device, const at::Tensor& source,
                        const StreamEvent& after = {}) const;
  /// The current stream waits: what the device computes from now on begins after the event.
  void wait_for(const StreamEvent& event) const;
  /// The same where nothing may throw.
  void wait_for_quietly(const StreamEvent& event) const noexcept;

 private:
  c10::Stream computes() const;
  StreamEvent copy(const at::Tensor& to, const at::Tensor& from,
                   const std::optional<c10::Stream>& on, const StreamEvent& after) const;

  c10::Device device_;
  std::optional<c10::Stream> to_host_, to_device_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/host_copies.ipp>
#endif
