#pragma once
// The copy of a policy's tensor on the device that computes.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Copies a tensor to a device once, instead of in every step, which would wait for the device.
class DeviceCopy {
 public:
  /// `t` on `device`: itself, or a copy that follows changes of `t`.
  const at::Tensor& operator()(const at::Tensor& t, c10::Device device) {
    if (!t.defined() || t.device() == device) return t;
    const auto version = t.is_inference() ? 0 : t._version();
    if (!source_.is_same(t) || version_ != version || copy_.device() != device)
      copy_ = t.to(device, /*non_blocking=*/!device.is_cpu()), source_ = t, version_ = version;
    return copy_;
  }

 private:
  at::Tensor source_, copy_;
  std::int64_t version_ = 0;
};

}  // namespace ikebana::detail
