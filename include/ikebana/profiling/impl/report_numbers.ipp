#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/profiling/report_numbers.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string percent(double share) {
  if (!std::isfinite(share)) return "not known";
  if (share > 0 && share < 0.0005) return "less than 0.1 %";
  return fixed(share * 100, 1) + " %";
}

IKEBANA_INLINE std::string duration_text(double seconds) {
  if (seconds >= 1) return rounded(seconds) + " s";
  return seconds >= 1e-3 ? rounded(seconds * 1e3) + " ms" : rounded(seconds * 1e6) + " us";
}

IKEBANA_INLINE std::string counted_text(double value, const std::string& unit) {
  const std::string text = short_number(value);
  return text + (text.ends_with(' ') ? "" : " ") + unit;
}

}  // namespace ikebana::detail
