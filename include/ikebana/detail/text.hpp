#pragma once
// Names of types, and texts, as error messages show them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

template <class T>
constexpr std::string_view spelled_type() {
  std::string_view text = __PRETTY_FUNCTION__;
  std::size_t begin = text.find("T = ") + 4;
  std::size_t end = text.find(';', begin);
  return text.substr(begin, (end == text.npos ? text.rfind(']') : end) - begin);
}

/// A text from outside the program, for an error message: control characters are escaped, so that
/// none reaches a terminal.
inline std::string escaped(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text)
    if (const auto byte = static_cast<unsigned char>(c); byte >= 0x20 && byte != 0x7f) out += c;
    else out.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  return out;
}

/// The shortest text from which the same number is read again.
inline std::string exact_text(double value) {
  char text[40];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

/// Padded with spaces to `width` columns: to the right, to the left.
inline std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}
inline std::string left(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

/// Texts with semicolons between them.
inline std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

/// Writes counts that stand for `Fit<>` and `Fit<8>` as these (grammar/vocabulary.hpp).
inline void spell_fit(std::string& text) {
  for (std::size_t at; (at = text.find("-9223372036854775807")) != text.npos;)
    text.replace(at, 20, "Fit<>");
  for (std::size_t at; (at = text.find("-4000000")) != text.npos;) {
    const std::size_t end = text.find_first_not_of("0123456789", at + 1),
                      max = std::min(text.find_first_not_of('0', at + 2), end - 1);
    text.replace(at, end - at, "Fit<" + text.substr(max, end - max) + ">");
  }
}
/// A type's name without `ikebana::`: `Precision<BF16>`.
template <class T>
std::string type_name() {
  std::string text(spelled_type<T>());
  for (std::string_view prefix : {"ikebana::axis::", "ikebana::", "struct ", "class "})
    for (std::size_t at; (at = text.find(prefix)) != text.npos;) text.erase(at, prefix.size());
  for (std::size_t at; (at = text.find("Impl>")) != text.npos;) text.erase(at, 4);
  std::string_view dynamic = "-9223372036854775808";  // a count that is a value: Every<>
  for (std::size_t at; (at = text.find(dynamic)) != text.npos;) text.erase(at, dynamic.size());
  spell_fit(text);
  for (std::size_t at; (at = text.find("> >")) != text.npos;) text.erase(at + 1, 1);
  return text;
}

/// A module's type as its users write it: `GPT` for GPTImpl.
template <class Module>
std::string module_name() {
  std::string text = type_name<Module>();
  if (text.ends_with("Impl")) text.resize(text.size() - 4);
  return text;
}

}  // namespace ikebana::detail
