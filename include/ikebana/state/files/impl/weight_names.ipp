#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <ikebana/state/files/weight_names.hpp>

namespace ikebana {

IKEBANA_INLINE WeightNames::WeightNames(const std::string& pattern) {
  if (!pattern.empty()) patterns_ = {pattern};
}

IKEBANA_INLINE bool WeightNames::match(const std::string& name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const auto& one) { return detail::matches_pattern(name, one); });
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE std::set<const void*> skipped_weights(
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

}  // namespace ikebana::detail
