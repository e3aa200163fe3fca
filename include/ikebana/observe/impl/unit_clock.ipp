#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/unit_clock.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE UnitClock::UnitClock(c10::Device device, std::size_t units)
    : sums_(2 * units), times_(2 * units + 1), part_(2 * units) {
  if (!device.is_cpu()) device_.emplace(device, times_.size(), nothing());
}

IKEBANA_INLINE void UnitClock::begin_step() {
  if (device_) device_->each_arrived(false, [&](auto seconds, double) { count(seconds); });
  std::fill(times_.begin(), times_.end(), 0);
  part_ = nothing(), last_ = Clock::now();
  if (device_) device_->begin_step(part_);
}

IKEBANA_INLINE UnitClock::Part UnitClock::enter(Part part) noexcept {
  if (part == part_) return part_;
  if (device_) {
    device_->enter(part);
  } else {
    const auto now = Clock::now();
    times_[part_] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  return std::exchange(part_, part);
}

IKEBANA_INLINE void UnitClock::end_step() {
  enter(nothing());
  if (device_) device_->end_step();
  else count(times_);
}

IKEBANA_INLINE void UnitClock::abort() noexcept {
  part_ = nothing();
  if (device_) device_->abort();
}

IKEBANA_INLINE void UnitClock::count(std::span<const double> seconds) {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += seconds[i];
  ++steps_;
}

IKEBANA_INLINE void UnitClock::reset() {
  if (device_) device_->each_arrived(true, [](auto, double) {});
  std::fill(sums_.begin(), sums_.end(), 0);
  steps_ = 0;
}

IKEBANA_INLINE std::int64_t UnitClock::steps() {
  if (device_) device_->each_arrived(true, [&](auto seconds, double) { count(seconds); });
  return steps_;
}

}  // namespace ikebana::detail
