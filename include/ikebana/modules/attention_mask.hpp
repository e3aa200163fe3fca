#pragma once
// What a mask leaves to queries without keys.
#include <ikebana/detail/torch.hpp>
#include <limits>

namespace ikebana::detail {

/// The result of scaled_dot_product_attention, with zeros for each query to which the mask (bool,
/// or added to the scores) leaves no key. LibTorch's kernels give zeros there, but for cuDNN's, for
/// tensors of 16 bits on some GPUs, which gives the mean of all values.
inline at::Tensor zeros_without_keys(const at::Tensor& result, const at::Tensor& mask) {
  if (!result.is_cuda() || c10::elementSize(result.scalar_type()) != 2) return result;
  const at::Tensor left_out = mask.scalar_type() == at::kBool
                                  ? mask.logical_not()
                                  : mask == -std::numeric_limits<double>::infinity();
  return result.masked_fill(left_out.all(-1, /*keepdim=*/true), 0);
}

}  // namespace ikebana::detail
