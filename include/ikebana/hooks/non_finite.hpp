#pragma once
// Finds out if gradients overflowed, or other numbers are not finite, without waiting for the
// device.
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <map>

namespace ikebana::detail {

/// Returns one float, 1 if an element of these gradients is not finite. `one` is the number 1 on
/// their device, or undefined.
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
/// Returns one float, 1 if a gradient of a step is not finite; reads them in the windows of their
/// storage.
at::Tensor any_non_finite(const StepGradients& gradients);
/// Returns one float, 1 if a number (one element, Float or Double) is not finite.
at::Tensor non_finite_flag(StepGradients& gradients, const at::Tensor& number);
/// Under a loss scale an overflow is found before the first policy that changes gradients one by
/// one, since that could make it finite.
void find_overflow(StepGradients& gradients);
/// Rejects the update if a number that `gradients.protocol.finite` lists is not finite; a later
/// step then raises its error.
void settle_finite_checks(StepGradients& gradients, DeferredCheck& deferred);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/hooks/impl/non_finite.ipp>
#endif
