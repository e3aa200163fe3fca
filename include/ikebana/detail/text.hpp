#pragma once
// Names of types, and texts, as error messages show them.
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
std::string escaped(std::string_view text);

/// The shortest text from which the same number is read again.
std::string exact_text(double value);

/// Padded with spaces to `width` columns: to the right, to the left.
std::string right(const std::string& text, std::size_t width);
std::string left(const std::string& text, std::size_t width);

/// Texts with semicolons between them.
std::string joined(const std::vector<std::string>& texts);

/// Writes counts that stand for `Fit<>` and `Fit<8>` as these (grammar/vocabulary.hpp).
void spell_fit(std::string& text);
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

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/text.ipp>
#endif
