#pragma once
#include <ikebana/data/collate.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string dtype_and_shape(const at::Tensor& t) {
  return t.defined() ? c10::toString(t.scalar_type()) + c10::str(t.sizes()) : "undefined";
}

IKEBANA_INLINE bool stackable(const at::Tensor& a, const at::Tensor& b, bool is_ragged) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const auto dim = static_cast<std::size_t>(is_ragged);
  return a.dim() == b.dim() && a.sizes().slice(dim) == b.sizes().slice(dim) &&
         a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

}  // namespace ikebana::detail
