#pragma once
#include <algorithm>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <limits>

namespace ikebana::detail {

IKEBANA_INLINE std::size_t edits_to_match(const std::string& name, const std::string& pattern) {
  std::vector<std::size_t> edits(name.size() + 1);
  for (std::size_t j = 0; j < edits.size(); ++j) edits[j] = j;
  for (const char c : pattern) {
    std::size_t diagonal = edits[0];
    if (c != '*') ++edits[0];
    for (std::size_t j = 1; j < edits.size(); ++j) {
      const std::size_t above = edits[j], changed = c != '?' && c != name[j - 1] ? 1 : 0;
      if (c == '*') edits[j] = std::min(above, edits[j - 1]);
      else edits[j] = std::min({diagonal + changed, above + 1, edits[j - 1] + 1});
      diagonal = above;
    }
  }
  return edits.back();
}

IKEBANA_INLINE std::size_t distance_of(const std::string& name,
                                       const std::vector<std::string>& patterns) {
  std::size_t least = name.size() + 1;
  for (const auto& p : patterns)
    least = std::min({least, edits_to_match(name, p), edits_to_match(name, "*" + p) + 1,
                      edits_to_match(name, p + "*") + 1, edits_to_match(name, "*" + p + "*") + 2});
  return least;
}

IKEBANA_INLINE std::string quoted_list(const std::vector<std::string>& texts) {
  std::string all;
  for (std::size_t i = 0; i < std::min<std::size_t>(texts.size(), 3); ++i)
    all += (i == 0 ? "`" : ", `") + texts[i] + "`";
  return all;
}

IKEBANA_INLINE std::string nearest_names(const std::vector<std::string>& patterns,
                                         std::vector<std::string> names) {
  const std::string of = "of " + std::to_string(names.size()) + " names";
  if (names.empty()) return " (no names exist)";
  if (patterns.empty()) return " (" + of + ", such as " + quoted_list(names) + ")";
  std::vector<std::size_t> distances;
  for (const auto& name : names) distances.push_back(distance_of(name, patterns));
  std::vector<std::string> nearest;
  while (nearest.size() < std::min<std::size_t>(names.size(), 3)) {
    const auto next = std::min_element(distances.begin(), distances.end());
    nearest.push_back(names[static_cast<std::size_t>(next - distances.begin())]);
    *next = std::numeric_limits<std::size_t>::max();
  }
  return " (" + quoted_list(patterns) + "; " + of + ", the nearest are " + quoted_list(nearest) +
         ")";
}

}  // namespace ikebana::detail
