#pragma once
// Defines the copy of a policy's tensor on the device that computes.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Copies a tensor to a device once, instead of in every step, which would wait for the device.
class DeviceCopy {
 public:
  /// Returns `t` on `device`: `t` itself, or a copy that follows changes of `t`. Compares the
  /// elements of a tensor on the CPU, because a program may write to them without LibTorch's
  /// knowledge.
  const at::Tensor& operator()(const at::Tensor& t, c10::Device device);

  /// Calls `visit` with `t` and with its copy, the tensors that a step may read.
  template <class Visit>
  void each_number(const at::Tensor& t, const Visit& visit) const {
    for (const at::Tensor* read : {&t, &copy_})
      if (read->defined()) visit(*read);
  }

 private:
  bool is_copied(const at::Tensor& t) const;

  at::Tensor copied_, copy_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/device_copy.ipp>
#endif
