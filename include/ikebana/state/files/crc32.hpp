#pragma once
// Computes the checksum of saved states, which is CRC-32 as in zlib, gzip and PNG, so that programs
// in any language can verify a file.
#include <array>
#include <cstddef>
#include <cstdint>

namespace ikebana::detail {

/// Table 0 holds the CRC of each byte, and table k that of the byte followed by k zero bytes.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

/// Continues a CRC with eight bytes at a time, on any processor. `crc` is the remainder itself, not
/// inverted.
std::uint32_t crc_by_tables(std::uint32_t crc, const unsigned char* p, std::size_t n);

/// Continues a CRC-32. `before` is the CRC-32 of the preceding bytes, or 0 at the beginning. It
/// reads about 10 GB/s on processors with carry-less multiplication (PCLMULQDQ), and about 0.5 GB/s
/// on others.
std::uint32_t crc32(std::uint32_t before, const void* bytes, std::size_t n);

/// Returns the CRC-32 of two pieces that follow each other, from the CRC-32 of each and the length
/// `n` of the second. Costs some thousand instructions.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t n);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/crc32.ipp>
#endif
