#pragma once
#include <ikebana/core/step_state.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE StepState::StepState() = default;
IKEBANA_INLINE StepState::~StepState() = default;

IKEBANA_INLINE void StepState::begin() {
  unit_was_run = false;
  microbatch = microbatches = 0;
}

namespace detail {

IKEBANA_INLINE void check_gradients(const StepGradients& gradients, const Masters& masters) {
  if (gradients.indices.empty() && !gradients.protocol.updated_in_backward)
    throw BadModel(
        "loss: no parameter that is trained got a gradient from it. Compute it from the model's "
        "output.");
  for (const std::size_t i : gradients.indices)
    if (!masters.values[i].is_non_overlapping_and_dense())
      throw BadModel("step: `" + masters.names[i] +
                     "` has gaps or overlaps in memory, which fused optimizers ignore, and is "
                     "trained now. Register a contiguous copy of it, and make a new trainer.");
}

IKEBANA_INLINE void forget_gradients(StepGradients& gradients, const Masters& masters) noexcept {
  gradients.values.clear(), gradients.protocol.finite.clear();
  for (const auto& master : masters.values) master.mutable_grad().reset();
}

}  // namespace detail

}  // namespace ikebana
