#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/radam.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void rectify(at::Tensor& change, const at::Tensor& inverse, double length,
                            double factor) {
  if (length > 5) change.mul_(inverse).mul_(factor);
}

IKEBANA_INLINE void rectify(at::Tensor& change, at::Tensor& inverse, const at::Tensor& length,
                            const at::Tensor& factor) {
  inverse.mul_(factor.to(inverse.scalar_type()));
  change.mul_(at::where_out(inverse, length > 5, inverse, at::ones({}, inverse.options())));
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Mechanism<RAdam>::Mechanism(RAdam v)
    : ElementsByOperators(std::move(v), {{"exp_avg"}, {"exp_avg_sq"}}) {
  check_values();
}

IKEBANA_INLINE void Mechanism<RAdam>::update(const Masters& masters, StepGradients& gradients) {
  ElementsByOperators::update(masters, gradients);
}

}  // namespace ikebana
