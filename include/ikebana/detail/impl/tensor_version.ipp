#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_version.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void Version::share_with(const at::Tensor& t) const {
  t.unsafeGetTensorImpl()->set_version_counter(counter_);
}

IKEBANA_INLINE void Version::restore() {
  if (changed()) counter_.set_version(recorded_);
}

IKEBANA_INLINE bool may_change_uncounted(const at::Tensor& buffer) {
  return (buffer.dim() == 1 && buffer.is_floating_point()) || buffer.is_inference();
}

}  // namespace ikebana::detail
