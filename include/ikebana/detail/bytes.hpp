#pragma once
// Sizes of memory.
#include <cstdint>
#include <string>

namespace ikebana {

/// Bytes: `GiB(8)`, `MiB(1.5)`. Fractions of a byte are cut off.
template <class Number>
constexpr std::int64_t KiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * 1024);
}
template <class Number>
constexpr std::int64_t MiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * (1 << 20));
}
template <class Number>
constexpr std::int64_t GiB(Number n) {
  return static_cast<std::int64_t>(static_cast<double>(n) * (1 << 30));
}

namespace detail {
/// `1234567 bytes (1.2 MiB)`
inline std::string bytes_text(std::int64_t bytes) {
  std::string text = std::to_string(bytes) + " bytes";
  const char* const names[] = {"KiB", "MiB", "GiB"};
  double size = static_cast<double>(bytes) / 1024;
  int name = 0;
  while (size >= 1024 && name < 2) size /= 1024, ++name;
  if (size < 1) return text;
  const auto tenths = static_cast<std::int64_t>(size * 10 + 0.5);
  return text + " (" + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " " +
         names[name] + ")";
}
}  // namespace detail

}  // namespace ikebana
