#pragma once
// Memory in large pages.
#include <cstddef>
#include <memory>

namespace ikebana::detail {

inline constexpr std::size_t large_page = 2 << 20;  ///< bytes

/// Uninitialised memory of at least `size - large_page` and at most `size` bytes, a multiple of
/// `large_page`, in large pages where the system has them. Throws std::bad_alloc.
std::shared_ptr<void> allocate_large_pages(std::size_t size);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/memory.ipp>
#endif
