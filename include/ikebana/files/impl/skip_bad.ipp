#pragma once
#include <exception>
#include <ikebana/detail/form.hpp>
#include <ikebana/files/skip_bad.hpp>

namespace ikebana::detail {

IKEBANA_INLINE BadSamples::BadSamples(std::int64_t max) : max_(max) {
  if (max < 0)
    throw BadValue("SkipBad: max is " + std::to_string(max) +
                   ". Use 0 or more, the number of samples that may be bad.");
}

IKEBANA_INLINE void BadSamples::add(std::int64_t index, const std::string& message) {
  const std::lock_guard lock(mutex_);
  bad_.emplace(index, message);
  if (static_cast<std::int64_t>(bad_.size()) <= max_) return;
  bad_.erase(index);
  std::string first;
  int listed = 0;
  for (const auto& [i, text] : bad_) {
    if (++listed > 3) break;
    first += "\n  sample " + std::to_string(i) + ": " + text;
  }
  std::throw_with_nested(BadFile("SkipBad: sample " + std::to_string(index) +
                                 " is bad as well, and max allows " + std::to_string(max_) +
                                 ". It is: " + message +
                                 (first.empty() ? "" : "\nThe first ones were:" + first) +
                                 "\nRepair the files, or raise max."));
}

IKEBANA_INLINE std::int64_t BadSamples::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(bad_.size());
}

IKEBANA_INLINE std::vector<BadEntry> BadSamples::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<BadEntry> all;
  for (const auto& [index, message] : bad_) all.push_back({index, message});
  return all;
}

}  // namespace ikebana::detail
