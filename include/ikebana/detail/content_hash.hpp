#pragma once
// A hash of a tensor's contents, by which ranks compare their tensors without sending them.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Returns a 64-bit hash of the dtype, the shape and all bytes of a tensor. Two different tensors
/// have the same hash by chance, once in 1.8e19 times. Costs a pass over memory, at about 8 GB/s.
std::uint64_t content_hash(const at::Tensor& t);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/content_hash.ipp>
#endif
