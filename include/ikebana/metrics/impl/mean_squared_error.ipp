#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/mean_squared_error.hpp>

namespace ikebana {

IKEBANA_INLINE void MeanSquaredError::add(const at::Tensor& outputs, const at::Tensor& target) {
  const at::Tensor errors = detail::regression_errors(name, outputs, target);
  sums.add(name, {errors.square().sum(), at::scalar_tensor(errors.numel(), at::kLong)});
}

IKEBANA_INLINE double MeanSquaredError::value() const {
  const double mean = detail::mean_of_sums(name, sums);
  return squared ? mean : std::sqrt(mean);
}

}  // namespace ikebana
