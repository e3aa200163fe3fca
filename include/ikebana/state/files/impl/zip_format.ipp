#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/zip_format.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string problem_of_zip_name(std::string_view name) {
  for (std::string_view text = name; !text.empty();) {
    const std::size_t n = Json::utf8_length(text);
    if (n == 0) return "is not UTF-8";
    const auto c = static_cast<unsigned char>(text[0]);
    if (c < 0x20 || c == 0x7f || c == '\\') return "has a control character or a backslash";
    text.remove_prefix(n);
  }
  if (name.starts_with('/')) return "begins with `/`";
  if (name.ends_with('/')) name.remove_suffix(1);  // a folder
  while (true) {
    const std::size_t n = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, n);
    if (part.empty() || part == "." || part == "..") return "has an empty part, `.` or `..`";
    if (n == name.size()) return "";
    name.remove_prefix(n + 1);
  }
}

}  // namespace ikebana::detail
