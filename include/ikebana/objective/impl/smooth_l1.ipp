#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/smooth_l1.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<SmoothL1Loss>::sum(const at::Tensor& output,
                                                       const at::Tensor& target) const {
  check();
  detail::check_numbers("SmoothL1Loss", output, target);
  return at::smooth_l1_loss(output, target, at::Reduction::Sum, values.beta);
}

IKEBANA_INLINE void Mechanism<SmoothL1Loss>::check() const {
  if (!(values.beta >= 0 && std::isfinite(values.beta)))
    throw BadValue("SmoothL1Loss: beta is " + c10::str(values.beta) +
                   "; it must be 0 or more, and finite.");
}

}  // namespace ikebana
