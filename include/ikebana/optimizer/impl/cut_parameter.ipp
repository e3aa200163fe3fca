#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/cut_parameter.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const at::Tensor& ParameterUpdate::gradient() const {
  const at::Tensor& gradient = undivided();
  if (divisor_ && !divided_) elements_of(gradient).div_(*divisor_);
  divided_ = true;
  return gradient;
}

IKEBANA_INLINE at::TensorOptions CutParameter::options() const {
  const at::Tensor& p = bucket_->parameters[place_];
  const auto options = p.options().requires_grad(false);
  return low_precision_->is_rounded(p) ? options.dtype(at::kFloat) : options;
}

}  // namespace ikebana::detail
