#pragma once
#include <ikebana/observe/module_clock.hpp>

namespace ikebana::detail {

IKEBANA_INLINE ModuleClock::Direction ModuleClock::direction() const {
  const UnitClock::Part around = clock_.present();
  if (around == clock_.nothing()) return Direction::Neither;
  return around % 2 == UnitClock::Forward ? Direction::Forward : Direction::Backward;
}

IKEBANA_INLINE void ModuleClock::compute(bridge::OperatorCall& call, std::size_t module,
                                         Direction direction) {
  const bool is_forward = direction == Direction::Forward;
  const auto part = clock_.part(module, is_forward ? UnitClock::Forward : UnitClock::Backward);
  const UnitClock::Part around = clock_.enter(part);
  call.compute();
  clock_.enter(around);
}

}  // namespace ikebana::detail
