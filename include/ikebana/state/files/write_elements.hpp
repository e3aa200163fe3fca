#pragma once
// Writing saved elements to a tensor.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Copies `from` to `t`, which has the same shape. LibTorch writes to no expanded tensor; here each
/// element of its memory is written once. A sparse tensor gets new indices and values, which one
/// that was detached from it would not share.
void write_elements(const at::Tensor& t, at::Tensor from);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/write_elements.ipp>
#endif
