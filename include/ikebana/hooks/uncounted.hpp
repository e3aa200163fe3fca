#pragma once
// Defines the memory of a model that no MemoryCounter counts.
#include <ikebana/model.hpp>

namespace ikebana::detail {

/// Returns the bytes of parameters and buffers that were allocated before the counting allocator
/// was in place.
std::int64_t uncounted_bytes(const UnitTable& table);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/hooks/impl/uncounted.ipp>
#endif
