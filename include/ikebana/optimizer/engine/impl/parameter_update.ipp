#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/parameter_update.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const at::Tensor& ParameterUpdate::gradient() const {
  const at::Tensor& gradient = undivided();
  if (divisor_ && !divided_) elements_of(gradient).div_(*divisor_);
  divided_ = true;
  return gradient;
}

IKEBANA_INLINE at::TensorOptions CutParameter::options() const {
  const auto options = bucket_->parameters[place_].options().requires_grad(false);
  return is_rounded() ? options.dtype(at::kFloat) : options;
}

IKEBANA_INLINE void CutParameter::visit(bool writes, ApplyUpdate f) {
  scratch_->clear();
  if (!is_rounded()) {
    const ParameterUpdate update(*bucket_, place_, *scratch_, *divisor_, on_device_, divided_);
    f(update);
    divided_ = update.is_divided();
    return;
  }
  // Each visit fills FP32 scratch with a gradient that is not divided.
  f({low_precision_->to_fp32(*bucket_, place_), 0, *scratch_, *divisor_, on_device_});
  if (writes) low_precision_->write_back(*bucket_, place_);
}

}  // namespace ikebana::detail
