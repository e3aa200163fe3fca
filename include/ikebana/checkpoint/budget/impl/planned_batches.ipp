#pragma once
#include <ikebana/checkpoint/budget/planned_batches.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool BatchSizes::cover(const BatchSizes& other) const {
  if (other.is_empty_) return true;
  if (is_empty_ || differ_ || other.differ_ || all_.size() != other.all_.size()) return false;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].size() != other.all_[i].size()) return false;
    for (std::size_t d = 0; d < all_[i].size(); ++d)
      if (other.all_[i][d] > all_[i][d]) return false;
  }
  return true;
}

IKEBANA_INLINE bool BatchSizes::raise(const std::vector<c10::DimVector>& sizes) {
  if (sizes.size() != all_.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].size() != all_[i].size()) return false;
    for (std::size_t d = 0; d < sizes[i].size(); ++d)
      all_[i][d] = std::max(all_[i][d], sizes[i][d]);
  }
  return true;
}

IKEBANA_INLINE bool StepSizes::cover(const StepSizes& other) const {
  return (first.cover(other.first) || others.cover(other.first)) && others.cover(other.others);
}

IKEBANA_INLINE void PlannedBatches::note_seconds(double one) {
  constexpr std::size_t enough = 9;
  if (seconds.size() == enough) seconds.erase(seconds.begin());
  seconds.push_back(one);
}

}  // namespace ikebana::detail
