#pragma once
#include <cstring>
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool is_flat(const at::Tensor& t) {
  return !without_values() && t.is_cpu() && t.layout() == at::kStrided &&
         t.is_non_overlapping_and_dense() && !t.is_conj() && !t.is_neg();
}

IKEBANA_INLINE bool are_flat_alike(const at::Tensor& a, const at::Tensor& b) {
  return is_flat(a) && is_flat(b) && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

IKEBANA_INLINE void copy_flat(const at::Tensor& to, const at::Tensor& from) {
  const std::size_t bytes = to.nbytes();
  if (bytes != 0) std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), bytes);
}

IKEBANA_INLINE at::Tensor dense(const at::Tensor& t) {
  return t.detach().cpu().resolve_conj().resolve_neg().contiguous();
}

}  // namespace ikebana::detail
