#pragma once
// What a mask leaves to queries without keys.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// The result of scaled_dot_product_attention, with zeros for each query to which the mask (bool,
/// or added to the scores) leaves no key. LibTorch's kernels give zeros there, but for cuDNN's, for
/// tensors of 16 bits on some GPUs, which gives the mean of all values.
at::Tensor zeros_without_keys(const at::Tensor& result, const at::Tensor& mask);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/attention_mask.ipp>
#endif
