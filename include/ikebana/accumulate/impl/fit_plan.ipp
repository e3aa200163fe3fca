#pragma once
#include <algorithm>
#include <ikebana/accumulate/fit_plan.hpp>
#include <ikebana/detail/form.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void FitMemory::attach(c10::Device device, std::int64_t limit) {
  device_ = device;
  if (device.is_cpu()) return watch(limit);
  try {
    counter_.emplace(device);
  } catch (const Error&) {  // this LibTorch does not count its memory
  }
}

IKEBANA_INLINE void FitMemory::check(std::int64_t limit) {
  if (limit == 0) return;
  const std::string value = "Accumulate<Fit<>>: limit is " + std::to_string(limit) + " bytes";
  if (limit < 0) throw BadValue(value + ". Write how many may be in use, or 0 for no limit.");
  if (!device_.is_cpu())
    throw BadValue(value + ", and the model is on " + device_.str() +
                   ", of which LibTorch has no limit that this library could set. Leave it out: "
                   "the device's own memory is the limit.");
  watch(limit);
  if (const std::int64_t now = counter_->now(); now > limit)
    throw BadValue(value + ", and " + std::to_string(now) +
                   " are in use already, by parameters, their state and all else that this "
                   "process keeps. Raise it.");
}

IKEBANA_INLINE void FitMemory::begin() {
  if (!counter_) return;
  counter_->reset_peak();
  base_ = counter_->now();
}

IKEBANA_INLINE std::int64_t FitMemory::used() const {
  return counter_ ? std::max<std::int64_t>(counter_->peak() - base_, 0) : 0;
}

IKEBANA_INLINE void FitMemory::end_failed() {
  if (counter_) base_ = counter_->now();
}

IKEBANA_INLINE std::int64_t FitMemory::bound(std::int64_t limit) const {
  std::int64_t bytes = limit > 0 ? limit : bridge::CountingAllocatorV2::no_limit;
  if (const auto* present = bridge::CountingAllocatorV2::installed(); present && device_.is_cpu())
    bytes = std::min(bytes, present->limit());
  return bytes;
}

IKEBANA_INLINE void FitMemory::watch(std::int64_t limit) {
  if (!counter_ && (limit > 0 || bridge::CountingAllocatorV2::installed() != nullptr))
    counter_.emplace(device_);
}

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
