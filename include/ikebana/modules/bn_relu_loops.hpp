#pragma once
// Defines the loops of modules::BNReLU2d over the memory of FP32 images on a CPU. They are compiled
// for AVX2, whatever processor the program is compiled for. The program checks for AVX2 when it
// runs.
#include <cstdint>
#include <cstring>
#include <utility>

namespace ikebana::detail::avx2 {

using Lanes = float __attribute__((vector_size(32)));
inline constexpr std::int64_t width = 8;

/// `count` groups of `width` neighbours, or of one element, that lie `step` elements apart. The
/// next series lies `ahead` elements further, if the processor does not prefetch it by itself.
struct Series {
  std::int64_t count, step;
  bool in_lanes;
  std::int64_t ahead = 0;
};

/// `rows` times `columns` elements, one after the other: of one channel, or with one column for
/// each channel.
struct Run {
  std::int64_t rows, columns;
  bool channels;
};

inline bool is_supported() {
  static const bool supported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return supported;
}

[[gnu::target("avx2,fma"), gnu::always_inline]] inline Lanes load(const float* from) noexcept {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void store(float* to,
                                                                  const Lanes& lanes) noexcept {
  std::memcpy(to, &lanes, sizeof lanes);
}
template <class... Pointers>
[[gnu::always_inline]] inline void prefetch(Pointers... pointers) noexcept {
  (__builtin_prefetch(pointers), ...);
}
/// Passes NaN on, which is not below 0, as LibTorch's operators do.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline Lanes relu(const Lanes& x) noexcept {
  return x < Lanes{} ? Lanes{} : x;
}
[[gnu::target("avx2,fma"), gnu::always_inline]] inline Lanes behind_relu(
    const Lanes& y, const Lanes& gradient) noexcept {
  return y <= Lanes{} ? Lanes{} : gradient;
}

/// Adds the values of x - origin to `sums`, and their squares to `squares`, each with one sum for
/// each element of a group. Makes two additions at a time, which need not wait for each other.
[[gnu::target("avx2,fma")]] inline void add_moments(const float* x, Series s, const float* origin,
                                                    float* sums, float* squares) noexcept {
  if (!s.in_lanes) {
    for (std::int64_t i = 0; i < s.count; ++i, x += s.step) {
      const float d = *x - *origin;
      *sums += d, *squares += d * d;
    }
    return;
  }
  const Lanes from = load(origin);
  Lanes first{}, second{}, first2{}, second2{};
  std::int64_t i = 0;
  for (; i + 2 <= s.count; i += 2, x += 2 * s.step) {
    prefetch(x + s.ahead, x + s.step + s.ahead);
    const Lanes d = load(x) - from, e = load(x + s.step) - from;
    first += d, second += d * d;
    first2 += e, second2 += e * e;
  }
  if (i < s.count) {
    const Lanes d = load(x) - from;
    first += d, second += d * d;
  }
  store(sums, load(sums) + first + first2), store(squares, load(squares) + second + second2);
}

/// Computes y = relu((x - mean) * scale + bias + residual); `residual` may be null. Reads elements
/// in the order in which they lie, which is fastest if they come from memory.
[[gnu::target("avx2,fma")]] inline void forward(const float* x, const float* residual, float* y,
                                                Run run, const float* mean, const float* scale,
                                                const float* bias) noexcept {
  for (std::int64_t row = 0, at = 0; row < run.rows; ++row) {
    std::int64_t c = 0;
    for (; c + width <= run.columns; c += width, at += width) {
      const std::int64_t p = run.channels ? c : 0;
      const Lanes v = (load(x + at) - load(mean + p)) * load(scale + p) + load(bias + p);
      store(y + at, relu(residual == nullptr ? v : v + load(residual + at)));
    }
    for (; c < run.columns; ++c, ++at) {
      const std::int64_t p = run.channels ? c : 0;
      const float v = (x[at] - mean[p]) * scale[p] + bias[p];
      const float sum = residual == nullptr ? v : v + residual[at];
      y[at] = sum < 0 ? 0 : sum;
    }
  }
}

/// Writes the gradient behind the ReLU to `passed`, and adds up this gradient and its products with
/// the normalised input.
[[gnu::target("avx2,fma")]] inline void add_gradients(const float* x, const float* y,
                                                      const float* gradient, float* passed,
                                                      Series s, const float* mean,
                                                      const float* inverse_std, float* sums,
                                                      float* products) noexcept {
  std::int64_t at = 0;
  if (!s.in_lanes) {
    for (std::int64_t i = 0; i < s.count; ++i, at += s.step) {
      const float g = passed[at] = y[at] <= 0 ? 0 : gradient[at];
      *sums += g, *products += g * ((x[at] - *mean) * *inverse_std);
    }
    return;
  }
  const Lanes m = load(mean);
  Lanes first{}, second{}, first2{}, second2{};
  std::int64_t i = 0;
  for (; i + 2 <= s.count; i += 2, at += 2 * s.step) {
    const std::int64_t next = at + s.step, later = at + s.ahead, last = next + s.ahead;
    prefetch(x + later, y + later, gradient + later, x + last, y + last, gradient + last);
    const Lanes g = behind_relu(load(y + at), load(gradient + at));
    const Lanes h = behind_relu(load(y + next), load(gradient + next));
    store(passed + at, g), store(passed + next, h);
    first += g, second += g * (load(x + at) - m);
    first2 += h, second2 += h * (load(x + next) - m);
  }
  if (i < s.count) {
    const Lanes g = behind_relu(load(y + at), load(gradient + at));
    store(passed + at, g);
    first += g, second += g * (load(x + at) - m);
  }
  store(sums, load(sums) + first + first2);
  store(products, load(products) + (second + second2) * load(inverse_std));
}

/// Computes dx = passed * a + (x - mean) * b + c; `dx` may be `passed`.
[[gnu::target("avx2,fma")]] inline void backward(const float* x, const float* passed, float* dx,
                                                 Run run, const float* mean, const float* a,
                                                 const float* b, const float* c) noexcept {
  for (std::int64_t row = 0, at = 0; row < run.rows; ++row) {
    std::int64_t k = 0;
    for (; k + width <= run.columns; k += width, at += width) {
      const std::int64_t p = run.channels ? k : 0;
      const Lanes difference = load(x + at) - load(mean + p);
      store(dx + at, load(passed + at) * load(a + p) + difference * load(b + p) + load(c + p));
    }
    for (; k < run.columns; ++k, ++at) {
      const std::int64_t p = run.channels ? k : 0;
      dx[at] = passed[at] * a[p] + (x[at] - mean[p]) * b[p] + c[p];
    }
  }
}

}  // namespace ikebana::detail::avx2
