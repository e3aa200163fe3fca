#pragma once
#include <ikebana/core/step_state.hpp>
#include <ikebana/detail/form.hpp>
#include <utility>

namespace ikebana {

IKEBANA_INLINE bool StepState::begin_watch(bool evaluating) {
  return is_first() && !evaluating && dry == nullptr && !std::exchange(is_watched, true);
}

IKEBANA_INLINE void StepState::begin() {
  unit_was_run = is_opened = false;
  microbatch = microbatches = 0;
}

}  // namespace ikebana
