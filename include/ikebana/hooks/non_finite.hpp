#pragma once
// Whether gradients overflowed, or other numbers are not finite, without waiting for the device.
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <map>

namespace ikebana::detail {

/// One float, 1 where an element of these gradients is not finite. `one` is the number 1 on their
/// device, or undefined.
template <class Gradients>
at::Tensor any_non_finite(const Gradients& gradients, at::Tensor one = {}) {
  std::map<at::ScalarType, Gradients> lists;
  for (const at::Tensor& t : gradients) lists[t.scalar_type()].push_back(elements_of(t));
  at::Tensor found;
  for (auto& [type, list] : lists) {
    if (!found.defined()) {
      auto options = at::TensorOptions(list[0].device()).dtype(at::kFloat);
      found = at::zeros({}, options);
      if (!one.defined()) one = at::ones({}, options);
    }
    at::_amp_foreach_non_finite_check_and_unscale_(list, found, one);
  }
  return found;
}
/// The same of a step's gradients, in the windows of their storage.
inline at::Tensor any_non_finite(const StepGradients& gradients) {
  at::Tensor found;
  gradients.in_windows(/*writes=*/true, [&](const Tensors& window) {
    const at::Tensor one = any_non_finite(window);
    found = found.defined() ? at::maximum(found, one) : one;
  });
  return found;
}
/// One float, 1 where a number (one element, Float or Double) is not finite.
inline at::Tensor non_finite_flag(StepGradients& gradients, const at::Tensor& number) {
  if (!gradients.checks_later(number)) return number.isfinite().logical_not().to(at::kFloat);
  return any_non_finite(Tensors{number}, gradients.finite.one(number));  // fewer operators
}
/// Under a loss scale an overflow is found before the first policy that changes gradients one by
/// one, since that could make it finite.
inline void find_overflow(StepGradients& gradients) {
  if (!gradients.loss_is_scaled || gradients.overflow.defined()) return;
  gradients.overflow = any_non_finite(gradients);
  gradients.reject(gradients.overflow);
}
/// Rejects the update where a number that `gradients.finite` lists is not finite; a later step then
/// raises its error.
inline void settle_finite_checks(StepGradients& gradients, DeferredCheck& deferred) {
  if (gradients.finite.empty()) return;
  const auto numbers = gradients.finite.numbers();
  const at::Tensor found = any_non_finite(numbers, gradients.finite.one(numbers[0]));
  gradients.reject(found);
  deferred.expect_zero(found, gradients.finite.take());
}

}  // namespace ikebana::detail
