#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/kl_div.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<KLDivLoss>::sum(const at::Tensor& output,
                                                    const at::Tensor& target) const {
  detail::check_probabilities("KLDivLoss", output, target);
  return at::kl_div(output, target, at::Reduction::Sum, values.log_target);
}

}  // namespace ikebana
