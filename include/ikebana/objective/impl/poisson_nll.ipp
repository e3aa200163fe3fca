#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/poisson_nll.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<PoissonNLLLoss>::sum(const at::Tensor& output,
                                                         const at::Tensor& target) const {
  check();
  detail::check_same_shape("PoissonNLLLoss", output, target);
  return at::poisson_nll_loss(output, target, values.log_input, values.full, values.eps,
                              at::Reduction::Sum);
}

IKEBANA_INLINE std::string Mechanism<PoissonNLLLoss>::describe() const {
  return std::string(values.log_input ? "log_input" : "") +
         (values.log_input && values.full ? ", " : "") + (values.full ? "full" : "");
}

IKEBANA_INLINE void Mechanism<PoissonNLLLoss>::check() const {
  if (!(values.eps >= 0 && std::isfinite(values.eps)))
    throw BadValue("PoissonNLLLoss: eps is " + c10::str(values.eps) +
                   "; it must be 0 or more, and finite.");
}

}  // namespace ikebana
