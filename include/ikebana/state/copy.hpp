#pragma once
// The copy of a state that training waits for, as quick as memory is.
#include <cstdlib>
#include <cstring>
#include <ikebana/state/archive.hpp>
#include <memory>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ikebana::detail {

/// Memory for a copy of `state` on the CPU, as one block in large pages where the system has them:
/// the first copy into small ones waits longer for the pages than for the bytes.
inline StateDict memory_like(const StateDict& state) {
  constexpr std::size_t page = 2 << 20, aligned = 64;
  auto room = [](const at::Tensor& t) { return (t.nbytes() + aligned - 1) / aligned * aligned; };
  std::size_t size = page;
  for (const auto& [name, t] : state) size += room(t);
  const std::shared_ptr<void> block(std::aligned_alloc(page, size / page * page), std::free);
  if (!block) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  (void)::madvise(block.get(), size / page * page, MADV_HUGEPAGE);
#endif
  StateDict all;
  auto next = static_cast<char*>(block.get());
  for (const auto& [name, t] : state) {
    const auto options = at::TensorOptions().dtype(t.scalar_type());
    all[name] = at::from_blob(next, t.sizes(), [block](void*) {}, options);
    next += room(t);
  }
  return all;
}

/// `to` is dense, on the CPU and of the type of `from`. With one thread the C library copies
/// quicker than LibTorch, with more LibTorch does.
inline void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  const bool as_it_lies = from.is_cpu() && from.is_contiguous() && !from.is_conj() &&
                          !from.is_neg() && at::get_num_threads() == 1;
  if (!as_it_lies) to.copy_(from);
  else if (from.nbytes() > 0)
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
}

}  // namespace ikebana::detail
