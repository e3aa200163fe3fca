#pragma once
#include <ikebana/observe/counted_flops.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void CountedFlops::Scope::call(bridge::OperatorCall& call) {
  const bool again = recomputing();
  const bridge::OperatorCost cost = bridge::computed_cost(call);
  if (cost.flops == 0) return;
  (again ? found_.recomputed : found_.flops) += cost.flops;
  by_dtype_[cost.dtype] += cost.flops;
}

IKEBANA_INLINE CountedFlops::Scope::~Scope() {
  std::int64_t most = 0;
  for (const auto& [dtype, flops] : by_dtype_)
    if (flops > most) most = flops, found_.dtype = dtype;
}

IKEBANA_INLINE void CountedFlops::keep(std::uint64_t shapes, const StepFlops& found) noexcept {
  last_ = found;
  try {
    known_[shapes] = found;
  } catch (const std::bad_alloc&) {  // another step with these shapes counts again
  }
}

}  // namespace ikebana::detail
