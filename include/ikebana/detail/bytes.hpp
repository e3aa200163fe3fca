#pragma once
// Sizes of memory.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace ikebana {

/// The bytes of `n` KiB, 1,024 each. Fractions of a byte are cut off.
template <class Number>
constexpr std::int64_t KiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * 1024);
}
/// The bytes of `n` MiB, 2^20 each: `MiB(1.5)`. Fractions of a byte are cut off.
template <class Number>
constexpr std::int64_t MiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * (1 << 20));
}
/// The bytes of `n` GiB, 2^30 each: `GiB(8)`. Fractions of a byte are cut off.
template <class Number>
constexpr std::int64_t GiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * (1 << 30));
}

namespace detail {
/// `1.5 GiB`, `23.4 MiB`, `512 B`.
inline std::string short_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; amount >= 1023.95 && unit + 1 < units.size(); ++unit) amount /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", amount, units[unit]);
  return text.data();
}
/// `1234567 bytes (1.2 MiB)`
inline std::string bytes_text(std::int64_t bytes) {
  const std::string text = std::to_string(bytes) + " bytes";
  return bytes < 1024 ? text : text + " (" + short_bytes(bytes) + ")";
}
}  // namespace detail

}  // namespace ikebana
