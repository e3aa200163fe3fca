#pragma once
// Names of weights that are left out when weights are loaded or saved.
#include <ikebana/detail/torch.hpp>
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
  WeightNames(const std::string& pattern);
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
  bool match(const std::string& name) const;

 private:
  std::vector<std::string> patterns_;
};

namespace detail {

/// The weights, given under all of their names, that `skip` matches; `others` are further names
/// that it may match. Throws BadValue for a pattern that matches none, and for a weight of which
/// one name is matched and another is not.
std::set<const void*> skipped_weights(
    const std::string& call, const WeightNames& skip,
    const std::vector<std::pair<std::string, at::Tensor>>& weights,
    const std::set<std::string>& others);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/weight_names.ipp>
#endif
