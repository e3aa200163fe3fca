#pragma once
// Whether gradients overflowed, without waiting for the device.
#include <ikebana/hooks/arguments.hpp>
#include <map>

namespace ikebana::detail {

/// One float, 1 where an element of these gradients is not finite.
template <class Gradients>
at::Tensor any_non_finite(const Gradients& gradients) {
  std::map<at::ScalarType, Gradients> lists;
  for (const at::Tensor& t : gradients) lists[t.scalar_type()].push_back(elements_of(t));
  at::Tensor found, one;
  for (auto& [type, list] : lists) {
    if (!found.defined()) {
      auto options = at::TensorOptions(list[0].device()).dtype(at::kFloat);
      found = at::zeros({}, options), one = at::ones({}, options);
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
/// Under a loss scale an overflow is found before the first policy that changes gradients one by
/// one, since that could make it finite.
inline void find_overflow(StepGradients& gradients) {
  if (!gradients.loss_is_scaled || gradients.overflow.defined()) return;
  gradients.overflow = any_non_finite(gradients);
  gradients.reject(gradients.overflow);
}

}  // namespace ikebana::detail
