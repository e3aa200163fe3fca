#pragma once
// Lists names for an error.
#include <ikebana/detail/text.hpp>

namespace ikebana::detail::pt2 {

/// Writes the names of a range's elements in backticks, with commas between them.
/// `name_of(element)` returns an element's name.
template <class Range, class NameOf>
std::string listed(const Range& range, const NameOf& name_of) {
  std::string all;
  for (const auto& element : range)
    all += (all.empty() ? "`" : ", `") + escaped(name_of(element)) + "`";
  return all;
}
inline std::string listed(const std::vector<std::string>& names) {
  return listed(names, [](const std::string& name) { return name; });
}

}  // namespace ikebana::detail::pt2
