#pragma once
#include <cstdlib>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/memory.hpp>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ikebana::detail {

IKEBANA_INLINE std::shared_ptr<void> allocate_large_pages(std::size_t size) {
  const std::size_t whole_pages = size / large_page * large_page;
  std::shared_ptr<void> block(std::aligned_alloc(large_page, whole_pages), std::free);
  if (!block) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  (void)::madvise(block.get(), whole_pages, MADV_HUGEPAGE);
#endif
  return block;
}

}  // namespace ikebana::detail
