#pragma once
#include <ikebana/observe/unit_operators.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void UnitOperators::call(bridge::OperatorCall& call) {
  Cost& cost = costs_[clock_.present()];
  const bridge::OperatorCost one = bridge::computed_cost(call);
  cost.flops += one.flops, cost.bytes += one.bytes, ++cost.operators;
  const bool is_forward = clock_.present() % 2 == UnitClock::Forward;
  if (is_forward && clock_.present() != clock_.nothing()) made_[clock_.present() / 2].add(call);
}

IKEBANA_INLINE void UnitOperators::end_forward(std::size_t unit) noexcept {
  try {
    const auto made = made_.extract(unit);
    MadeMemory::Counted counted;
    if (!activations_[unit]) activations_[unit] = made ? made.mapped().held_bytes(counted) : 0;
  } catch (const std::bad_alloc&) {  // then they are not counted
  }
}

}  // namespace ikebana::detail
