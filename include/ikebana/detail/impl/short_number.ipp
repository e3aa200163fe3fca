#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// Returns how many decimals a number has if it is written with `digits` digits.
inline int decimals_of(double value, int digits) {
  const double size = std::abs(value);
  if (!(size > 0) || !std::isfinite(size)) return 0;
  return std::clamp(digits - 1 - static_cast<int>(std::floor(std::log10(size))), 0, digits);
}

IKEBANA_INLINE std::string rounded(double value) { return fixed(value, decimals_of(value, 4)); }

IKEBANA_INLINE std::string short_number(double value) {
  const char* letters[] = {" ", " k", " M", " G", " T", " P"};
  std::size_t thousands = 0;
  for (; std::abs(value) >= 999.5 && thousands < 5; ++thousands) value /= 1000;
  const bool is_whole = thousands == 0 && value == std::floor(value);
  return fixed(value, is_whole ? 0 : decimals_of(value, 3)) + letters[thousands];
}

}  // namespace ikebana::detail
