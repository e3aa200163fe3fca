#pragma once
// Places batches on the device that computes.
#include <ikebana/batch.hpp>
#include <ikebana/bridge/copy_stream.hpp>

namespace ikebana::detail {

/// Places batches by the recipe's mechanisms of device and layout. When it ends, the caller may
/// write to the batches' memory again: it waits for copies that still read pinned memory, and for
/// nothing that the device computes.
class Placement {
 public:
  explicit Placement(c10::Device device) : device_(device) {}
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  /// Returns one batch on the device, in the recipe's layout.
  template <class Device, class Layout, class Batch>
  Batch place(Device& device, Layout& layout, const Batch& batch) {
    if (bridge::has_copy_streams(device_))
      for_each_tensor(batch, [&](const at::Tensor& t) {
        reads_pinned_ = reads_pinned_ || (t.defined() && t.is_cpu() && t.is_pinned());
      });
    return layout.place(device.place(batch, device_), device_);
  }

 private:
  c10::Device device_;
  bool reads_pinned_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/placement.ipp>
#endif
