#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string escaped(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text)
    if (const auto byte = static_cast<unsigned char>(c); byte >= 0x20 && byte != 0x7f) out += c;
    else out.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  return out;
}

IKEBANA_INLINE std::string policy_line(const std::string& policy, const std::string& values) {
  return "  " + policy + (values.empty() ? "" : "  {" + values + "}") + "\n";
}

IKEBANA_INLINE std::string exact_text(double value) {
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

IKEBANA_INLINE std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

IKEBANA_INLINE std::string left(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

IKEBANA_INLINE std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

/// Spells `(FitCount)8`, as compilers write the value of `Fit<8>`, by that name.
IKEBANA_INLINE void spell_fit(std::string& text) {
  static constexpr std::string_view type = "(FitCount)";
  for (std::size_t at; (at = text.find(type)) != text.npos;) {
    text.replace(at, type.size(), "Fit<");
    text.insert(std::min(text.find_first_not_of("0123456789", at + 4), text.size()), ">");
  }
}

IKEBANA_INLINE std::string without_namespace(std::string_view spelled) {
  std::string text(spelled);
  for (std::string_view prefix : {"ikebana::axis::", "ikebana::", "struct ", "class "})
    for (std::size_t at; (at = text.find(prefix)) != text.npos;) text.erase(at, prefix.size());
  for (std::size_t at; (at = text.find("Impl>")) != text.npos;) text.erase(at, 4);
  for (std::string_view dynamic : {"-9223372036854775808L", "-9223372036854775808"})  // Every<>
    for (std::size_t at; (at = text.find(dynamic)) != text.npos;) text.erase(at, dynamic.size());
  spell_fit(text);
  for (std::size_t at; (at = text.find("> >")) != text.npos;) text.erase(at + 1, 1);
  return text;
}

IKEBANA_INLINE std::string without_impl(std::string name) {
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

}  // namespace ikebana::detail
