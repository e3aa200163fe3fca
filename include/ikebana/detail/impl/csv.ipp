#pragma once
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string csv_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

IKEBANA_INLINE std::string csv_field(const std::string& text) {
  return text.find_first_of(",\"\r\n") == std::string::npos ? text : csv_quoted(text);
}

}  // namespace ikebana::detail
