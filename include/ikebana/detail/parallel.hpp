#pragma once
// Loops over the memory of CPU tensors: on LibTorch's threads, in vectorizable tiles, and by dtype.
#include <algorithm>
#include <ikebana/detail/torch.hpp>
#include <ikebana/detail/without_values.hpp>
#include <memory>

namespace ikebana::detail {

/// Calls `f(begin, end)` for parts that cover [0, n) exactly once. Each `begin` is a multiple of
/// `grain`. `memory` points to the `n` elements that the loop works on. Uses up to
/// at::get_num_threads() of LibTorch's own threads. The calling thread does everything itself if
/// there are at most `grain` elements, inside another parallel region, and if the few hundred bytes
/// that threads need cannot be allocated. `f` must be noexcept. Does nothing while this thread
/// computes without values.
///
/// at::parallel_for is an inline template that uses threads only in programs compiled with OpenMP,
/// whereas TensorIterator's loop is compiled into LibTorch. Here the iterator goes over one byte of
/// every `grain` elements of `memory`. The addresses of these bytes tell which elements to process.
template <class T, class F>
void in_parallel(const T* memory, std::int64_t n, std::int64_t grain, const F& f) noexcept {
  static_assert(noexcept(f(n, n)), "exceptions cannot leave LibTorch's threads");
  if (n <= 0 || without_values()) return;
  if (n <= grain || at::get_num_threads() == 1 || at::in_parallel_region())
    return f(std::int64_t{0}, n);
  auto* const base = const_cast<char*>(reinterpret_cast<const char*>(memory));
  const auto stride = grain * static_cast<std::int64_t>(sizeof(T));
  std::unique_ptr<at::TensorIterator> iterator;  // std::optional would instantiate its assignment
  try {                                          // the only part that allocates
    iterator.reset(new at::TensorIterator(
        at::TensorIteratorConfig()
            .check_all_same_dtype(false)
            .resize_outputs(false)
            .add_owned_output(at::for_blob(base, {(n + grain - 1) / grain})
                                  .strides(at::IntArrayRef(stride))
                                  .options(at::TensorOptions().dtype(at::kByte))
                                  .make_tensor())
            .build()));
  } catch (...) {
    return f(std::int64_t{0}, n);
  }
  iterator->for_each(
      [&](char** data, const std::int64_t*, std::int64_t count) {
        const std::int64_t first = (data[0] - base) / stride;
        f(first * grain, std::min(n, (first + count) * grain));
      },
      /*grain_size=*/1);
}

/// Calls `f(begin, count)` for tiles of [begin, end). `count` is a compile-time constant except in
/// the last tile, so that compilers vectorize the loop in `f` without further options.
template <class F>
void in_tiles(std::int64_t begin, std::int64_t end, const F& f) noexcept {
  constexpr std::integral_constant<std::int64_t, 64> tile;
  for (; end - begin >= tile; begin += tile) f(begin, tile);
  if (begin < end) f(begin, end - begin);
}

/// The type in which formulas on elements of type T are computed: double for double, float for
/// others.
template <class T>
using opmath_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls `f(T())` with the C++ type of a real floating-point dtype.
template <class F>
void dispatch_dtype(at::ScalarType dtype, const F& f) noexcept {
  switch (dtype) {
    case at::kFloat:
      return f(float());
    case at::kDouble:
      return f(double());
    case at::kBFloat16:
      return f(at::BFloat16());
    default:
      return f(at::Half());
  }
}

/// Returns a pointer to the first element of a tensor, for loops over its memory in the order of
/// its strides. Returns null while this thread computes without values.
template <class T>
T* data_of(const at::Tensor& t) {
  return without_values() ? nullptr : static_cast<T*>(t.mutable_data_ptr());
}

}  // namespace ikebana::detail
