#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/fallback_optimizer.hpp>

namespace ikebana::detail {

IKEBANA_INLINE StepGradients& FallbackOptimizer::prepare(
    const AdamW& values, const Masters& masters, const StepGradients& gradients,
    const RateRef& rate, c10::function_ref<bool(std::size_t, const at::Tensor&)> is_primary) {
  mechanism.values = values;  // the caller may have changed them since the last step
  for (StepGradients* part : {&primary_, &fallback_}) {
    part->indices.clear(), part->values.clear();
    part->divisor = gradients.divisor, part->found_inf = gradients.found_inf;
  }
  for (std::size_t k = 0; k < gradients.indices.size(); ++k) {
    std::size_t i = gradients.indices[k];
    StepGradients& part = is_primary(i, gradients.values[k]) ? primary_ : fallback_;
    part.indices.push_back(i), part.values.push_back(gradients.values[k]);
  }
  mechanism.prepare(masters, fallback_, rate);
  return primary_;
}

IKEBANA_INLINE void FallbackOptimizer::end_step(Report& report) noexcept {
  mechanism.end_step(fallback_, report);
  forget_gradients();
}

IKEBANA_INLINE void FallbackOptimizer::abort() noexcept {
  mechanism.abort();
  forget_gradients();
}

IKEBANA_INLINE void FallbackOptimizer::state(Archive& archive, AdamW& values,
                                             const Masters& masters) {
  mechanism.values = values;
  archive.within("otherwise", [&] { mechanism.state(archive, masters); });
  values = mechanism.values;
}

}  // namespace ikebana::detail
