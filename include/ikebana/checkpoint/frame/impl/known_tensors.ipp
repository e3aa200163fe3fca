#pragma once
#include <algorithm>
#include <ikebana/checkpoint/frame/known_tensors.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::size_t KnownTensors::index_of(const at::Tensor& t) const {
  auto found =
      std::find_if(all_.begin(), all_.end(), [&](const Known& known) { return known.is(t); });
  return static_cast<std::size_t>(found - all_.begin());
}

IKEBANA_INLINE bool KnownTensors::Known::is(const at::Tensor& t) const {
  return tensor._unsafe_get_target() == t.unsafeGetTensorImpl() && !version.changed();
}

}  // namespace ikebana::detail
