#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/update_in_parts.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool has_parts(const Bucket& b, std::size_t j) {
  const at::Tensor& p = b.parameters[j];
  if (p.numel() < 2 * elements_in_part || !p.is_non_overlapping_and_dense()) return false;
  const auto fits = [&](const at::Tensor& t) {
    return !t.defined() || t.numel() == 1 || same_layout(t, p);
  };
  return fits(b.gradients[j]) &&
         std::ranges::all_of(b.state, [&](const Tensors& slot) { return fits(slot[j]); });
}

}  // namespace ikebana::detail
