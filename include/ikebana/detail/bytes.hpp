#pragma once
// Computes and describes sizes of memory.
#include <cstdint>
#include <string>

namespace ikebana {

/// Returns the bytes of `n` KiB, 1,024 each. Fractions of a byte are cut off.
template <class Number>
constexpr std::int64_t KiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * 1024);
}
/// Returns the bytes of `n` MiB, 2^20 each: `MiB(1.5)`. Fractions of a byte are cut off.
template <class Number>
constexpr std::int64_t MiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * (1 << 20));
}
/// Returns the bytes of `n` GiB, 2^30 each: `GiB(8)`. Fractions of a byte are cut off.
template <class Number>
constexpr std::int64_t GiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * (1 << 30));
}

namespace detail {
/// Writes a size as `1.5 GiB`, `23.4 MiB` or `512 B`.
std::string short_bytes(std::int64_t bytes);
/// Writes a size as `1234567 bytes (1.2 MiB)`.
std::string bytes_text(std::int64_t bytes);
}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/bytes.ipp>
#endif
