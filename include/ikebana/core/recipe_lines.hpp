#pragma once
// What a trainer says of itself as lines `name = value`.
#include <ikebana/detail/fnv1a.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <string>
#include <string_view>

namespace ikebana::detail {

/// Takes a line's name and value.
using AddLine = c10::function_ref<void(const std::string& name, std::string_view value)>;

/// A number of the lines that it is given: FNV-1a.
struct LinesHash {
  std::uint64_t value = fnv1a_start;
  void operator()(const std::string& name, std::string_view text);
};
/// The lines that `each_line` gives, up to the first that a policy's values make an error.
std::string text_of_lines(c10::function_ref<void(AddLine)> each_line);
/// The names of parameters, with shapes and dtypes.
void each_line_of(const Masters& masters, AddLine add);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/recipe_lines.ipp>
#endif
