#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/huber.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<HuberLoss>::sum(const at::Tensor& output,
                                                    const at::Tensor& target) const {
  check();
  detail::check_numbers("HuberLoss", output, target);
  return at::huber_loss(output, target, at::Reduction::Sum, values.delta);
}

IKEBANA_INLINE void Mechanism<HuberLoss>::check() const {
  if (!(values.delta > 0 && std::isfinite(values.delta)))
    throw BadValue("HuberLoss: delta is " + c10::str(values.delta) +
                   "; it must be above 0, and finite.");
}

}  // namespace ikebana
