#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/mean_absolute_error.hpp>

namespace ikebana {

IKEBANA_INLINE void MeanAbsoluteError::add(const at::Tensor& outputs, const at::Tensor& target) {
  const at::Tensor errors = detail::regression_errors(name, outputs, target);
  sums.add(name, {errors.abs().sum(), at::scalar_tensor(errors.numel(), at::kLong)});
}

}  // namespace ikebana
