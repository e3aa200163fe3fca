#pragma once
// Copies of tensors as bytes: they allocate nothing, so they can be made where nothing may throw.
#include <cstring>
#include <ikebana/detail/torch.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::detail {

/// True for a tensor that is dense elements in memory of the host and no more.
inline bool is_flat(const at::Tensor& t) {
  return !without_values() && t.is_cpu() && t.layout() == at::kStrided &&
         t.is_non_overlapping_and_dense() && !t.is_conj() && !t.is_neg();
}
/// True for flat tensors whose elements lie in the same order.
inline bool are_flat_alike(const at::Tensor& a, const at::Tensor& b) {
  return is_flat(a) && is_flat(b) && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}
/// Copies the elements of one of two such tensors to the other. Counts no version.
inline void copy_flat(const at::Tensor& to, const at::Tensor& from) {
  const std::size_t bytes = to.nbytes();
  if (bytes != 0) std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), bytes);
}

}  // namespace ikebana::detail
