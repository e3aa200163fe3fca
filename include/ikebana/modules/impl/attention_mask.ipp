#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/attention_mask.hpp>
#include <limits>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor zeros_without_keys(const at::Tensor& result, const at::Tensor& mask) {
  if (!result.is_cuda() || c10::elementSize(result.scalar_type()) != 2) return result;
  const at::Tensor left_out = mask.scalar_type() == at::kBool
                                  ? mask.logical_not()
                                  : mask == -std::numeric_limits<double>::infinity();
  return result.masked_fill(left_out.all(-1, /*keepdim=*/true), 0);
}

}  // namespace ikebana::detail
