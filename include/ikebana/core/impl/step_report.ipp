#pragma once
#include <ikebana/core/step_report.hpp>
#include <ikebana/detail/form.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void StepReport::add_outputs(Loss& loss) {
  if (loss.outputs.defined()) outputs_.push_back(std::exchange(loss.outputs, {}).detach());
}

IKEBANA_INLINE at::Tensor StepReport::joined_outputs() const {
  return outputs_.empty() ? at::Tensor() : outputs_.size() == 1 ? outputs_[0] : at::cat(outputs_);
}

IKEBANA_INLINE Report StepReport::without_rates(const StepState& state, Totals& totals) const {
  Report report;
  report.value = std::move(totals.value());
  for (auto& part : report.value.parts) part.seed.reset();  // was checked
  report.step = state.attempts;
  report.microbatches = static_cast<std::int64_t>(state.microbatches);
  report.position = state.position;
  report.norm = state.gradients.norm;
  report.found_inf = state.gradients.found_inf;
  report.outputs = joined_outputs();
  return report;
}

}  // namespace ikebana::detail
