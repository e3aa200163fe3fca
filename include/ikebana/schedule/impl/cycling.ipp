#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/cycling.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_recorded_momentum() {
  if (recording())
    throw BadValue(
        "schedule: this step is recorded, and its schedule cycles the momentum, which a replay "
        "would not change. Write .cycle_momentum = false.");
}

}  // namespace ikebana::detail
