#pragma once
// A number of what a tensor holds, by which ranks compare theirs without sending them.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// 64 bits of the dtype, the shape and all bytes of a tensor. Of different ones it is the same by
/// chance alone, once in 1.8e19 times. Costs a pass over memory, at about 8 GB/s.
std::uint64_t content_hash(const at::Tensor& t);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/content_hash.ipp>
#endif
