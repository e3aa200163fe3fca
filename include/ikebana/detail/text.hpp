#pragma once
// Names of types, and texts, as error messages show them.
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

/// The type in the name of a function whose parameter `T` it is.
constexpr std::string_view type_in(std::string_view function) {
  std::size_t begin = function.find("T = ") + 4;
  std::size_t end = function.find(';', begin);
  return function.substr(begin, (end == function.npos ? function.rfind(']') : end) - begin);
}
template <class T>
constexpr std::string_view spelled_type() {
  return type_in(__PRETTY_FUNCTION__);
}

/// A text from outside the program, for an error message: control characters are escaped, so that
/// none reaches a terminal.
std::string escaped(std::string_view text);

/// A policy with its values, as a trainer describes it.
std::string policy_line(const std::string& policy, const std::string& values);

/// The shortest text from which the same number is read again.
std::string exact_text(double value);

/// Padded with spaces to `width` columns: to the right, to the left.
std::string right(const std::string& text, std::size_t width);
std::string left(const std::string& text, std::size_t width);

/// Texts with semicolons between them.
std::string joined(const std::vector<std::string>& texts);

/// A type's name without `ikebana::`, of what a compiler spells: `Precision<BF16>`.
std::string without_namespace(std::string_view spelled);
/// The same of a type.
template <class T>
std::string type_name() {
  return without_namespace(spelled_type<T>());
}

/// A module's type as its users write it: `GPT` for GPTImpl.
std::string without_impl(std::string name);
template <class Module>
std::string module_name() {
  return without_impl(type_name<Module>());
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/text.ipp>
#endif
