#pragma once
// Converts arrays of unsigned integers to 64 bits.
#include <cstddef>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ikebana::detail {

#if defined(__SSE2__)
/// Converts whole groups of eight and returns their number of integers. Every X86-64 has these
/// instructions; g++ 12 at -O2 would take twice as long as memcpy of the result.
inline std::size_t widen_groups(const std::uint16_t* from, std::int64_t* to, std::size_t n) {
  const __m128i zero = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m128i low = _mm_unpacklo_epi16(x, zero), high = _mm_unpackhi_epi16(x, zero);
    auto* out = reinterpret_cast<__m128i*>(to + i);
    _mm_storeu_si128(out, _mm_unpacklo_epi32(low, zero));
    _mm_storeu_si128(out + 1, _mm_unpackhi_epi32(low, zero));
    _mm_storeu_si128(out + 2, _mm_unpacklo_epi32(high, zero));
    _mm_storeu_si128(out + 3, _mm_unpackhi_epi32(high, zero));
  }
  return i;
}
inline std::size_t widen_groups(const std::uint32_t* from, std::int64_t* to, std::size_t n) {
  const __m128i zero = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    auto* out = reinterpret_cast<__m128i*>(to + i);
    _mm_storeu_si128(out, _mm_unpacklo_epi32(x, zero));
    _mm_storeu_si128(out + 1, _mm_unpackhi_epi32(x, zero));
  }
  return i;
}
#endif
template <class From>
std::size_t widen_groups(const From*, std::int64_t*, std::size_t) {
  return 0;
}

/// Converts `n` integers. Costs about as much as memcpy of the result.
template <class From>
void widen(const From* from, std::int64_t* to, std::size_t n) {
  for (std::size_t i = widen_groups(from, to, n); i < n; ++i)
    to[i] = static_cast<std::int64_t>(from[i]);
}

}  // namespace ikebana::detail
