#pragma once
// Copies to and from an accelerator on streams of their own: they overlap with the device's
// computation. The host waits for the copy of a batch from pageable memory, and such a copy does
// not wait for the computation either.

#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// Returns true for devices with streams and events, whose allocator keeps memory for the streams
/// that use it.
bool has_copy_streams(c10::Device device);

/// The kinds of copies, each with a stream of its own.
enum class CopyStream { Batches, ToHost, ToDevice };

/// Returns the stream of this process for copies of this kind to or from `device`, which has an
/// index. The first call makes the stream.
c10::Stream copy_stream(c10::Device device, CopyStream what);

/// The copies of one batch. Work that the current stream of the device is given after `finish` sees
/// the copies; their memory is reused only after that work.
class CopyToDevice {
 public:
  /// `device` has an index and copy streams.
  explicit CopyToDevice(c10::Device device)
      : copies_(copy_stream(device, CopyStream::Batches)),
        computes_(c10::impl::VirtualGuardImpl(device.type()).getStream(device)) {}

  /// Returns a copy of `t` on the device. If the memory of `t` is pinned, it is read later.
  at::Tensor operator()(const at::Tensor& t);
  void finish();

  /// Waits until the copies so far have read the host's memory. Does not wait for computations of
  /// the device.
  static void wait(c10::Device device);

 private:
  c10::Stream copies_, computes_;
  bool any_ = false;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/copy_stream.ipp>
#endif
