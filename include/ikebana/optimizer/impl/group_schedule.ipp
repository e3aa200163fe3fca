#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/group_schedule.hpp>

namespace ikebana {

IKEBANA_INLINE GroupSchedule& GroupSchedule::operator=(GroupSchedule other) noexcept {
  schedule_ = std::move(other.schedule_);
  return *this;
}

}  // namespace ikebana
