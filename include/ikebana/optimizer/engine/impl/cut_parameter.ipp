#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/cut_parameter.hpp>

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

IKEBANA_INLINE void CutParameter::visit(bool writes, ApplyUpdate f) {
  scratch_->clear();
  low_precision_->update_one(*bucket_, place_, writes, [&](Bucket& b, std::size_t j) {
    const ParameterUpdate update(b, j, *scratch_, *divisor_, on_device_, divided_);
    f(update);
    divided_ = update.is_divided() && &b == bucket_;  // FP32 scratch is filled in each visit
  });
}

}  // namespace ikebana::detail
