#pragma once
// Names of weights that are left out when weights are loaded or saved.
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

namespace ikebana {

/// Names by shell patterns, in which `*` also matches dots: `"fc.*"`, or several of them,
/// `{"fc.*", "head.*"}`. Without a pattern it matches nothing.
class WeightNames {
 public:
  /// Matches nothing.
  WeightNames() = default;
  /// One pattern; an empty one is none.
  WeightNames(const std::string& pattern) {
    if (!pattern.empty()) patterns_ = {pattern};
  }
  /// One pattern; an empty one, or null, is none.
  WeightNames(const char* pattern) : WeightNames(std::string(pattern ? pattern : "")) {}
  /// Several patterns.
  WeightNames(std::initializer_list<const char*> patterns)
      : patterns_(patterns.begin(), patterns.end()) {}
  /// Several patterns.
  WeightNames(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  /// The patterns as they were given.
  const std::vector<std::string>& patterns() const { return patterns_; }
  /// Whether one of the patterns matches the name.
  bool match(const std::string& name) const {
    return std::any_of(patterns_.begin(), patterns_.end(),
                       [&](const auto& one) { return detail::matches_pattern(name, one); });
  }

 private:
  std::vector<std::string> patterns_;
};

namespace detail {

/// The weights, given under all of their names, that `skip` matches; `others` are further names
/// that it may match. Throws BadValue for a pattern that matches none, and for a weight of which
/// one name is matched and another is not.
template <class = void>
std::set<const void*> skipped_weights(
    const std::string& call, const WeightNames& skip,
    const std::vector<std::pair<std::string, at::Tensor>>& weights,
    const std::set<std::string>& others) {
  std::vector<std::string> names(others.begin(), others.end());
  std::set<const void*> skipped;
  for (const auto& [name, t] : weights) {
    names.push_back(name);
    if (skip.match(name)) skipped.insert(t.unsafeGetTensorImpl());
  }
  for (const auto& pattern : skip.patterns())
    if (std::none_of(names.begin(), names.end(),
                     [&](const auto& name) { return matches_pattern(name, pattern); }))
      throw BadValue(call + ": skip matches no weight" + nearest_names({pattern}, names) +
                     ". Correct the pattern, or leave it out.");
  for (const auto& [name, t] : weights)
    if (skipped.count(t.unsafeGetTensorImpl()) && !skip.match(name))
      throw BadValue(call + ": skip matches one name of a weight, and not its other name `" +
                     escaped(name) + "`. Give both, or none.");
  return skipped;
}

}  // namespace detail
}  // namespace ikebana
