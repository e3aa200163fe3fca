#pragma once
// Copies tensors as bytes. `copy_flat` allocates nothing, so code that must not throw can call it.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Returns whether a tensor is only dense elements in memory of the host.
bool is_flat(const at::Tensor& t);
/// Returns whether two tensors are flat and their elements lie in the same order.
bool are_flat_alike(const at::Tensor& a, const at::Tensor& b);
/// Copies the elements of one of two such tensors to the other. Does not increment the version.
void copy_flat(const at::Tensor& to, const at::Tensor& from);
/// Returns the tensor on the CPU, contiguous, without lazy conjugation or negation.
at::Tensor dense(const at::Tensor& t);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/flat_copy.ipp>
#endif
