#pragma once
// Copies of tensors as bytes: they allocate nothing, so they can be made where nothing may throw.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// True for a tensor that is dense elements in memory of the host and no more.
bool is_flat(const at::Tensor& t);
/// True for flat tensors whose elements lie in the same order.
bool are_flat_alike(const at::Tensor& a, const at::Tensor& b);
/// Copies the elements of one of two such tensors to the other. Counts no version.
void copy_flat(const at::Tensor& to, const at::Tensor& from);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/flat_copy.ipp>
#endif
