#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/offload/stays_on_device.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StaysOnDevice::add(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& p : parameters) add_one(p);
}

IKEBANA_INLINE bool StaysOnDevice::operator()(const at::Tensor& t) const {
  return !t.defined() || t.layout() != at::kStrided || !t.has_storage() || t.device() != device_ ||
         t.is_quantized() || t.unsafeGetTensorImpl()->is_python_dispatch() || is_away(t) ||
         static_cast<std::int64_t>(t.storage().nbytes()) < min_bytes_ || t.numel() == 0 ||
         kept_.count(t.storage().unsafeGetStorageImpl()) > 0;
}

IKEBANA_INLINE void StaysOnDevice::add_one(const at::Tensor& t) {
  if (t.defined() && t.has_storage())
    kept_.try_emplace(t.storage().unsafeGetStorageImpl(), t.storage().getWeakStorageImpl());
}

}  // namespace ikebana::detail
