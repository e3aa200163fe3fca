#pragma once
// Copies between a device and memory of the host, on streams of their own, which overlap with the
// device's computation.

#include <ikebana/detail/torch.hpp>
#include <memory>

namespace ikebana::bridge {

/// An event of a stream, as c10::Event. Without a stream, as on a CPU, it is empty, and all work
/// counts as done.
class StreamEvent {
 public:
  StreamEvent() = default;
  /// Records the work that the stream has been given until now.
  explicit StreamEvent(const c10::Stream& stream);
  bool query() const { return !event_ || event_->query(); }
  /// Work that the stream is given from now on begins after the event.
  void block(const c10::Stream& stream) const;
  /// Makes the host wait for the event.
  void synchronize() const;
  /// Does what `synchronize` does, but does not throw. A device that failed does not use memory any
  /// more.
  void synchronize_quietly() const noexcept;
  explicit operator bool() const { return event_ != nullptr; }

 private:
  std::shared_ptr<c10::Event> event_;
};

/// Copies of one trainer between its device and the host, each direction on a stream that all
/// trainers of the device share. On a device without streams, such as a CPU, a copy is made at
/// once.
class HostCopies {
 public:
  /// `device` has an index, or is a CPU. Uses no streams if the thread computes without values.
  explicit HostCopies(c10::Device device);
  c10::Device device() const { return device_; }
  /// Returns true if copies overlap with the device's computation.
  bool overlap() const { return to_host_.has_value(); }

  /// Returns uninitialised memory of the host for copies, which is pinned if copies overlap.
  at::Tensor host_memory(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) const;
  /// Copies what the current stream has computed until now. Keep both tensors until the copy is
  /// made, or keep the device's tensor until the device's current stream waits for the event.
  StreamEvent to_host(const at::Tensor& on_host, const at::Tensor& source,
                      const StreamEvent& after = {}) const;
  /// Copies into memory of the device that the current stream may have used until now.
  StreamEvent to_device(const at::Tensor& on_device, const at::Tensor& source,
                        const StreamEvent& after = {}) const;
  /// Makes the current stream wait: its work from now on begins after the event.
  void wait_for(const StreamEvent& event) const;
  /// Does what `wait_for` does, but does not throw.
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
