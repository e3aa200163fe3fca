#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/l1.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<L1Loss>::sum(const at::Tensor& output,
                                                 const at::Tensor& target) const {
  detail::check_numbers("L1Loss", output, target);
  return at::l1_loss(output, target, at::Reduction::Sum);
}

}  // namespace ikebana
