#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/group_schedule.hpp>

namespace ikebana {

IKEBANA_INLINE GroupSchedule& GroupSchedule::operator=(GroupSchedule other) noexcept {
  schedule_ = std::move(other.schedule_);
  return *this;
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE GroupRate::GroupRate(const GroupSchedule& own, const RateRef& rate)
    : own_(own ? &own : nullptr), rate_(rate) {
  if (own_ != nullptr && rate_.step() < 0)
    throw BadValue(
        "optimizer: a group has a schedule of its own, and the rate that `prepare` was given "
        "does not know the step. Pass a StepRate.");
}

IKEBANA_INLINE double GroupRate::operator()(double lr) const {
  return own_ ? own_->rate(lr, rate_.step()) : rate_(lr);
}

IKEBANA_INLINE double GroupRate::momentum(double base) const {
  return own_ ? own_->momentum(base, rate_.step()) : rate_.momentum(base);
}

}  // namespace ikebana::detail
