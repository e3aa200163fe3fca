#pragma once
// A loop over the memory of a CPU tensor on LibTorch's own threads.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Calls `f(begin, end)` for parts of [0, n), each of `grain` or fewer. at::parallel_for is a
/// template that goes without threads where a program is compiled without OpenMP; TensorIterator's
/// loop is in the library. It is given addresses only to count by them.
template <class F>
void in_parallel(std::int64_t n, std::int64_t grain, const F& f) noexcept {
  if (n <= grain || at::get_num_threads() == 1) return f(std::int64_t{0}, n);
  auto* base = reinterpret_cast<char*>(64);
  at::Tensor parts = at::for_blob(base, {(n + grain - 1) / grain})
                         .options(at::TensorOptions().dtype(at::kByte))
                         .make_tensor();
  auto iterator = at::TensorIteratorConfig()
                      .check_all_same_dtype(false)
                      .set_check_mem_overlap(false)
                      .resize_outputs(false)
                      .add_output(parts)
                      .build();
  iterator.for_each(
      [&](char** data, const std::int64_t*, std::int64_t count) {
        std::int64_t first = data[0] - base;
        f(first * grain, std::min(n, (first + count) * grain));
      },
      1);
}

/// Calls `f(begin, count)` over [begin, end), `count` a constant but for the rest: what compilers
/// need to make vectors of a loop without being told to.
template <class F>
void in_tiles(std::int64_t begin, std::int64_t end, const F& f) noexcept {
  constexpr std::integral_constant<std::int64_t, 64> tile;
  for (; end - begin >= tile; begin += tile) f(begin, tile);
  if (begin < end) f(begin, end - begin);
}

/// What a formula computes in for numbers of type T.
template <class T>
using wide_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls `f(T())` with the number type of a tensor of real numbers.
template <class F>
void with_type(at::ScalarType type, const F& f) noexcept {
  switch (type) {
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

/// The memory of a tensor, whatever its strides: elements as they lie there.
template <class T>
T* memory(const at::Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

}  // namespace ikebana::detail
