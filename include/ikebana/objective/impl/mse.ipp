#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/mse.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<MSELoss>::sum(const at::Tensor& output,
                                                  const at::Tensor& target) const {
  detail::check_numbers("MSELoss", output, target);
  return at::mse_loss(output, target, at::Reduction::Sum);
}

}  // namespace ikebana
