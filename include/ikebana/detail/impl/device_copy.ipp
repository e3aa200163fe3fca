#pragma once
#include <cstring>
#include <ikebana/detail/device_copy.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const at::Tensor& DeviceCopy::operator()(const at::Tensor& t, c10::Device device) {
  if (!t.defined() || t.device() == device) return t;
  if (!t.is_cpu()) return copy_ = t.to(device, /*non_blocking=*/!device.is_cpu());
  if (copy_.defined() && copy_.device() == device && is_copied(t)) return copy_;
  copied_ = t.detach().clone();  // a copy, because it may be read after `t` was changed
  return copy_ = copied_.to(device, /*non_blocking=*/true);
}

IKEBANA_INLINE bool DeviceCopy::is_copied(const at::Tensor& t) const {
  if (!copied_.defined() || t.sizes() != copied_.sizes() || t.dtype() != copied_.dtype())
    return false;
  const at::Tensor now = t.contiguous(), then = copied_.contiguous();
  return now.nbytes() == 0 ||
         std::memcmp(now.const_data_ptr(), then.const_data_ptr(), now.nbytes()) == 0;
}

}  // namespace ikebana::detail
