#pragma once
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string short_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; amount >= 1023.95 && unit + 1 < units.size(); ++unit) amount /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", amount, units[unit]);
  return text.data();
}

IKEBANA_INLINE std::string bytes_text(std::int64_t bytes) {
  const std::string text = std::to_string(bytes) + " bytes";
  return bytes < 1024 ? text : text + " (" + short_bytes(bytes) + ")";
}

}  // namespace ikebana::detail
