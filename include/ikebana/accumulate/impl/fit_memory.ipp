#pragma once
#include <ikebana/accumulate/fit_memory.hpp>
#include <ikebana/detail/form.hpp>

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

}  // namespace ikebana::detail
