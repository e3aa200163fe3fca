#pragma once
// The checksum of saved states: CRC-32 as in zlib, gzip and PNG, so that programs in any language
// can verify a file.
#include <smmintrin.h>
#include <wmmintrin.h>
#include <array>
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#endif

namespace ikebana::detail {

/// Table 0: the CRC of each byte; table k: of the byte followed by k zero bytes.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

/// Takes eight bytes at a time, on any processor. `crc` is the remainder itself, not inverted.
std::uint32_t crc_by_tables(std::uint32_t crc, const unsigned char* p, std::size_t n);

#if defined(__x86_64__)
/// Takes 64 bytes at a time by carry-less multiplication, the rest by tables. Source: V. Gopal et
/// al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009.
__attribute__((target("sse4.1,pclmul"))) inline std::uint32_t crc_by_folding(std::uint32_t crc,
                                                                             const unsigned char* p,
                                                                             std::size_t n) {
  if (n < 64) return crc_by_tables(crc, p, n);
  auto load = [](const unsigned char* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  };
  const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  __m128i x[4] = {load(p), load(p + 16), load(p + 32), load(p + 48)};
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
    for (int i = 0; i < 4; ++i) {
      __m128i low = _mm_clmulepi64_si128(x[i], by_64, 0x00);
      __m128i high = _mm_clmulepi64_si128(x[i], by_64, 0x11);
      x[i] = _mm_xor_si128(_mm_xor_si128(low, high), load(p + 16 * i));
    }
  for (int i = 1; i < 4; ++i) {
    __m128i low = _mm_clmulepi64_si128(x[0], by_16, 0x00);
    __m128i high = _mm_clmulepi64_si128(x[0], by_16, 0x11);
    x[0] = _mm_xor_si128(_mm_xor_si128(low, high), x[i]);
  }
  unsigned char folded[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(folded), x[0]);
  return crc_by_tables(crc_by_tables(0, folded, 16), p, n);
}
#endif

/// Continues a CRC-32: `before` is that of the preceding bytes (0 if there are none). About 10 GB/s
/// on processors with carry-less multiplication (PCLMULQDQ), about 0.5 GB/s on others.
std::uint32_t crc32(std::uint32_t before, const void* bytes, std::size_t n);

/// The CRC-32 of bytes that two writers wrote, of which the second ones are `n`. Costs some
/// thousand instructions.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t n);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/crc32.ipp>
#endif
