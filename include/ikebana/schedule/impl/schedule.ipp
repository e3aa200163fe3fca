#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/schedule.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_schedule(const char* name, bool good, const char* what) {
  if (!good) throw BadValue(std::string(name) + ": " + what);
}

IKEBANA_INLINE std::string braced(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "{" + text + "}";
}

}  // namespace ikebana::detail
