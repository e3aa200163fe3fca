#pragma once
// The copy of a policy's tensor on the device that computes.
#include <cstring>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Copies a tensor to a device once, instead of in every step, which would wait for the device.
class DeviceCopy {
 public:
  /// `t` on `device`: itself, or a copy that follows changes of `t`. Compares the elements of a
  /// tensor on the CPU, since a program may write to them without LibTorch's knowledge.
  const at::Tensor& operator()(const at::Tensor& t, c10::Device device) {
    if (!t.defined() || t.device() == device) return t;
    if (!t.is_cpu()) return copy_ = t.to(device, /*non_blocking=*/!device.is_cpu());
    if (copy_.defined() && copy_.device() == device && is_copied(t)) return copy_;
    copied_ = t.detach().clone();  // nothing else writes to it: it may be read later
    return copy_ = copied_.to(device, /*non_blocking=*/true);
  }

  /// Calls `visit` with `t` or its copy, whichever a step reads.
  template <class Visit>
  void each_number(const at::Tensor& t, const Visit& visit) const {
    for (const at::Tensor* read : {&t, &copy_})
      if (read->defined()) visit(*read);
  }

 private:
  bool is_copied(const at::Tensor& t) const {
    if (!copied_.defined() || t.sizes() != copied_.sizes() || t.dtype() != copied_.dtype())
      return false;
    const at::Tensor now = t.contiguous(), then = copied_.contiguous();
    return now.nbytes() == 0 ||
           std::memcmp(now.const_data_ptr(), then.const_data_ptr(), now.nbytes()) == 0;
  }

  at::Tensor copied_, copy_;
};

}  // namespace ikebana::detail
