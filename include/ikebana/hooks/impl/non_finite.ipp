#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks/non_finite.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor any_non_finite(const StepGradients& gradients) {
  at::Tensor found;
  gradients.in_windows(/*writes=*/true, [&](const Tensors& window) {
    const at::Tensor one = any_non_finite(window);
    found = found.defined() ? at::maximum(found, one) : one;
  });
  return found;
}

IKEBANA_INLINE at::Tensor non_finite_flag(StepGradients& gradients, const at::Tensor& number) {
  if (!gradients.checks_later(number)) return number.isfinite().logical_not().to(at::kFloat);
  return any_non_finite(Tensors{number}, gradients.protocol.finite.one(number));  // fewer operators
}

IKEBANA_INLINE void find_overflow(StepGradients& gradients) {
  if (!gradients.protocol.loss_is_scaled || gradients.protocol.overflow.defined()) return;
  gradients.protocol.overflow = any_non_finite(gradients);
  gradients.reject(gradients.protocol.overflow);
}

IKEBANA_INLINE void settle_finite_checks(StepGradients& gradients, DeferredCheck& deferred) {
  if (gradients.protocol.finite.empty()) return;
  const auto numbers = gradients.protocol.finite.numbers();
  const at::Tensor found = any_non_finite(numbers, gradients.protocol.finite.one(numbers[0]));
  gradients.reject(found);
  deferred.expect_zero(found, gradients.protocol.finite.take());
}

}  // namespace ikebana::detail
