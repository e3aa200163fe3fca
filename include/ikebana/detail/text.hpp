#pragma once
// Makes names of types, and texts, as error messages show them.
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

/// Returns the spelling of type `T` from the name of a function that has the parameter `T`.
constexpr std::string_view type_in(std::string_view function) {
  std::size_t begin = function.find("T = ") + 4;
  std::size_t end = function.find(';', begin);
  return function.substr(begin, (end == function.npos ? function.rfind(']') : end) - begin);
}
template <class T>
constexpr std::string_view spelled_type() {
  return type_in(__PRETTY_FUNCTION__);
}

/// Prepares a text from outside the program for an error message: control characters are escaped,
/// so that they do not reach a terminal.
std::string escaped(std::string_view text);

/// Describes a policy with its values, as a trainer does.
std::string policy_line(const std::string& policy, const std::string& values);

/// Returns the shortest text from which the same number is read again.
std::string exact_text(double value);

/// Pads a text with spaces to `width` columns, and aligns it to the right or to the left.
std::string right(const std::string& text, std::size_t width);
std::string left(const std::string& text, std::size_t width);

/// Joins texts with semicolons between them.
std::string joined(const std::vector<std::string>& texts);

/// Removes `ikebana::` from a type's name as a compiler spells it: `Precision<BF16>`.
std::string without_namespace(std::string_view spelled);
/// Returns a type's name without `ikebana::`.
template <class T>
std::string type_name() {
  return without_namespace(spelled_type<T>());
}

/// Returns a module's type as its users write it: `GPT` for GPTImpl.
std::string without_impl(std::string name);
template <class Module>
std::string module_name() {
  return without_impl(type_name<Module>());
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/text.ipp>
#endif
