#pragma once
// Memory in large pages.
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ikebana::detail {

inline constexpr std::size_t large_page = 2 << 20;  ///< bytes

/// Uninitialised memory of at least `size - large_page` and at most `size` bytes, a multiple of
/// `large_page`, in large pages where the system has them. Throws std::bad_alloc.
inline std::shared_ptr<void> allocate_large_pages(std::size_t size) {
  const std::size_t whole_pages = size / large_page * large_page;
  std::shared_ptr<void> block(std::aligned_alloc(large_page, whole_pages), std::free);
  if (!block) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  (void)::madvise(block.get(), whole_pages, MADV_HUGEPAGE);
#endif
  return block;
}

}  // namespace ikebana::detail
