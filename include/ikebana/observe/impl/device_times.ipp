#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/device_times.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void DeviceTimes::begin_step(std::size_t part, double waited) {
  if (pending_.size() == most_steps) return abort();
  if (!idle_.empty()) present_ = std::move(idle_.back()), idle_.pop_back();
  present_.used = 0, present_.waited = waited;
  present_.follows = std::exchange(follows_, false);
  is_recorded_ = true;
  enter(part);
}

IKEBANA_INLINE void DeviceTimes::enter(std::size_t part) noexcept {
  if (!is_recorded_) return;
  try {
    add(part);
  } catch (...) {  // no event can be made: the step is not measured
    abort();
  }
}

IKEBANA_INLINE void DeviceTimes::add(std::size_t part) {
  if (present_.used == present_.borders.size())
    present_.borders.push_back({c10::Event(device_.type(), c10::EventFlag::BACKEND_DEFAULT), part});
  Border& border = present_.borders[present_.used];
  border.event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  border.part = part;
  ++present_.used;
}

IKEBANA_INLINE void DeviceTimes::end_step() noexcept {
  enter(between_);
  if (!std::exchange(is_recorded_, false)) return;
  try {
    pending_.push_back(std::exchange(present_, {}));
    follows_ = true;
  } catch (...) {  // no memory for another step
  }
}

IKEBANA_INLINE void DeviceTimes::each_arrived(bool waits, Receive f) {
  while (!pending_.empty()) {
    Step& step = pending_.front();
    Border& end = step.borders[step.used - 1];
    if (waits) end.event.synchronize();
    else if (!end.event.query()) return;
    read(step);
    f(seconds_, step.waited);
    last_.emplace(std::move(end.event));
    step.borders.erase(step.borders.begin() + static_cast<std::ptrdiff_t>(step.used) - 1);
    idle_.push_back(std::move(step));
    pending_.pop_front();
  }
}

IKEBANA_INLINE void DeviceTimes::read(const Step& step) {
  std::fill(seconds_.begin(), seconds_.end(), 0);
  auto add = [&](std::size_t part, const c10::Event& begin, const c10::Event& end) {
    seconds_[part] += begin.elapsedTime(end) * 1e-3;
  };
  if (step.follows && last_) add(between_, *last_, step.borders[0].event);
  for (std::size_t i = 0; i + 1 < step.used; ++i)
    add(step.borders[i].part, step.borders[i].event, step.borders[i + 1].event);
}

}  // namespace ikebana::detail
