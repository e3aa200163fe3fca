#pragma once
// The copy of a state that training waits for, as quick as memory is.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ikebana/state/archive.hpp>
#include <memory>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
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

/// Copies past the caches: memory that is overwritten whole is not read before.
inline void copy_streaming(char* to, const char* from, std::size_t n) {
#if defined(__SSE2__)
  constexpr std::size_t line = 64;
  std::size_t done = std::min(n, (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
  std::memcpy(to, from, done);
  for (; n - done >= line; done += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + done);
    auto* target = reinterpret_cast<__m128i*>(to + done);
    const __m128i words[] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1),
                             _mm_loadu_si128(source + 2), _mm_loadu_si128(source + 3)};
    for (int i = 0; i < 4; ++i) _mm_stream_si128(target + i, words[i]);
  }
  _mm_sfence();  // another thread reads it
  to += done, from += done, n -= done;
#endif
  std::memcpy(to, from, n);
}

/// `to` is dense, on the CPU and of the type of `from`. Uses LibTorch's threads.
inline void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  constexpr std::int64_t min = 1 << 20;  // for a thread of its own
  const bool as_it_lies =
      from.is_cpu() && from.is_contiguous() && !from.is_conj() && !from.is_neg();
  if (!as_it_lies || from.nbytes() == 0) {
    to.copy_(from);
    return;
  }
  auto target = static_cast<char*>(to.mutable_data_ptr());
  auto source = static_cast<const char*>(from.const_data_ptr());
  const auto size = static_cast<std::int64_t>(from.nbytes());
  at::parallel_for(0, size, min, [=](std::int64_t begin, std::int64_t end) {
    copy_streaming(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace ikebana::detail
