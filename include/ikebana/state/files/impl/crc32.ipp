#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/state/files/crc32.hpp>
#if defined(__x86_64__)
#include <smmintrin.h>
#include <wmmintrin.h>
#endif

namespace ikebana::detail {

inline CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}

/// Makes the tables at the first use, because computing them in each compilation would cost more.
inline const CrcTables& crc_tables() {
  static const CrcTables tables = make_crc_tables();
  return tables;
}

IKEBANA_INLINE std::uint32_t crc_by_tables(std::uint32_t crc, const unsigned char* p,
                                           std::size_t n) {
  const CrcTables& tables = crc_tables();
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t chunk;
    std::memcpy(&chunk, p, 8);
    chunk ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(chunk >> (8 * k)) & 0xff];
  }
  for (; n > 0; ++p, --n) crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xff];
  return crc;
}

#if defined(__x86_64__)
/// Continues a CRC with 64 bytes at a time by carry-less multiplication, and with the rest by
/// tables. Source: V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
/// Instruction, Intel 2009.
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

IKEBANA_INLINE std::uint32_t crc32(std::uint32_t before, const void* bytes, std::size_t n) {
  auto p = static_cast<const unsigned char*>(bytes);
#if defined(__x86_64__)
  static const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (folds) return ~crc_by_folding(~before, p, n);
#endif
  return ~crc_by_tables(~before, p, n);
}

/// Multiplies two polynomials modulo that of the CRC. Bits are in reverse order.
inline std::uint32_t crc_product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? 0xedb88320u : 0);
  }
  return product;
}

IKEBANA_INLINE std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second,
                                          std::uint64_t n) {
  std::uint32_t shift = 1u << 31, power = 1u << 23;  // 1, and x to the 8
  for (; n != 0; n >>= 1, power = crc_product(power, power))
    if ((n & 1) != 0) shift = crc_product(shift, power);
  return crc_product(shift, first) ^ second;
}

}  // namespace ikebana::detail
