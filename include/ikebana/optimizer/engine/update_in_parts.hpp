#pragma once
// Updates of large parameters by operators: part after part of their elements.
#include <ikebana/optimizer/engine/cut_parameter.hpp>

namespace ikebana::detail {

/// Elements of a part. All operators of an update find those of a few tensors in the cache.
inline constexpr std::int64_t elements_in_part = std::int64_t{1} << 16;

/// True for a parameter of several parts, whose gradient and state lie in memory as it does; state
/// of one element is of the whole parameter.
bool has_parts(const Bucket& b, std::size_t j);

/// Calls `apply(update)` for each part of parameter `j`, whose update of an element depends on no
/// other element. What the update makes of a number, it makes once.
void update_in_parts(const Bucket& all, std::size_t j, Scratch& scratch,
                     const std::optional<at::Tensor>& divisor, ApplyUpdate apply);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/update_in_parts.ipp>
#endif
