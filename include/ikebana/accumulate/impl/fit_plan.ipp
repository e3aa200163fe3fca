#pragma once
#include <algorithm>
#include <ikebana/accumulate/fit_plan.hpp>
#include <ikebana/detail/form.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE bool FitPlan::should_fit(std::int64_t base, std::int64_t limit) const {
  const double needed = static_cast<double>(base) + 2 * margin * static_cast<double>(used);
  return used == 0 || ((failed == 0 || needed <= static_cast<double>(failed_base + failed)) &&
                       needed <= static_cast<double>(limit));
}

IKEBANA_INLINE void FitPlan::shrink() noexcept {
  microbatches = (microbatches + 1) / 2;
  quiet = used = 0, on_trial = true;
}

IKEBANA_INLINE void FitPlan::grow(std::int64_t to, std::int64_t bytes, std::int64_t base) noexcept {
  if (std::exchange(on_trial, false)) failures = std::min(failures + 1, most_failures);
  microbatches = to;
  quiet = used = 0, failed = bytes, failed_base = base;
}

IKEBANA_INLINE void FitPlan::end_step(std::int64_t bytes, std::int64_t steps) noexcept {
  ++quiet, used = std::max(used, bytes);
  if (on_trial && has_passed(steps)) on_trial = false, failures = 0;
}

IKEBANA_INLINE bool FitPlan::has_passed(std::int64_t steps) const {
  return steps > 0 && quiet >> std::min(failures, most_failures) >= steps;
}

IKEBANA_INLINE void FitHistory::add(const FitChange& change) noexcept {
  if (changes_.size() == most) changes_.erase(changes_.begin());
  changes_.push_back(change);
  ++count_;
}

IKEBANA_INLINE bool FitHistory::add_undone(std::int64_t step) noexcept {
  const bool soon = undone_ >= 0 && step > undone_ && step - undone_ < 10;
  undone_ = step;
  if (soon) ++soon_;
  return soon;
}

}  // namespace ikebana::detail
