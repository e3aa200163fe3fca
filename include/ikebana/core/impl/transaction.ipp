#pragma once
#include <ikebana/core/transaction.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void Outputs::add(Loss& loss) {
  if (loss.outputs.defined()) all_.push_back(std::exchange(loss.outputs, {}).detach());
}

IKEBANA_INLINE at::Tensor Outputs::joined() const {
  return all_.empty() ? at::Tensor() : all_.size() == 1 ? all_[0] : at::cat(all_);
}

IKEBANA_INLINE void warn_of_mode(StepState& state, const torch::nn::Module& model) {
  if (model.is_training() || state.dry != nullptr) return;
  if (std::exchange(state.is_told_of_mode, true)) return;
  TORCH_WARN(
      "step: the model is in evaluation mode, so it trains without dropout, and batch norm with "
      "its running statistics. Call model->train() before; where a part is to stay in evaluation "
      "mode, call eval() on that part afterwards.");
}

IKEBANA_INLINE void refuse_no_unit() {
  throw BadModel(
      "step: a policy of the recipe works unit by unit, and the loss ran no unit. Write "
      "run(block, x) in the model's loss instead of block(x).");
}

IKEBANA_INLINE Report report_of(const StepState& state, Totals& totals, const Outputs& outputs) {
  Report report;
  report.value = std::move(totals.value());
  for (auto& part : report.value.parts) part.seed.reset();  // was checked
  report.step = state.attempts;
  report.microbatches = static_cast<std::int64_t>(state.microbatches);
  report.position = state.position;
  report.norm = state.gradients.norm;
  report.found_inf = state.gradients.found_inf;
  report.outputs = outputs.joined();
  return report;
}

}  // namespace ikebana::detail
