#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/fp8_scaling.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::ScalarType fp8_type(FP8Role role) {
  return role == FP8Role::Gradient ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
}

IKEBANA_INLINE Quantized quantize(const at::Tensor& x, const at::Tensor& scale, FP8Role role) {
  double max = fp8_max(role);
  return {(x * scale).clamp_(-max, max).to(fp8_type(role)), scale.reciprocal(), scale};
}

IKEBANA_INLINE FP8Scales::FP8Scales(const Scaling& scaling, std::int64_t layers,
                                    c10::Device device) {
  auto* delayed = std::get_if<DelayedScaling>(&scaling);
  if (!delayed) return;
  auto options = at::TensorOptions(device).dtype(at::kFloat);
  history_ = at::zeros({delayed->amax_history_len, layers, 3}, options);
  latest_ = at::zeros({layers, 3}, options);
  amax_ = at::zeros({layers, 3}, options), scale_ = at::zeros({layers, 3}, options);
  double factor = std::exp2(-delayed->margin);
  max_ = at::tensor({448 * factor, 448 * factor, 57344 * factor}, options);
  position_ = at::zeros({}, options.dtype(at::kLong));
}

IKEBANA_INLINE Quantized FP8Scales::quantized(std::int64_t layer, FP8Role role, const at::Tensor& x,
                                              bool record) {
  at::Tensor now = at::linalg_vector_norm(x, std::numeric_limits<double>::infinity());
  at::Tensor scale = now.clamp_min(1e-12).reciprocal() * fp8_max(role);
  if (!delayed()) return quantize(x, scale, role);
  auto slot = [&](const at::Tensor& t) { return t[layer][static_cast<std::int64_t>(role)]; };
  if (record) slot(latest_).copy_(at::maximum(slot(latest_), now));
  at::Tensor known = slot(scale_);
  return quantize(x, at::where(known > 0, known, scale), role);
}

IKEBANA_INLINE void FP8Scales::end_step() noexcept {
  if (!delayed()) return;
  // CUDA's deterministic form makes a row of another shape from an index without dimensions.
  history_.index_copy_(0, position_.view({1}), latest_.nan_to_num_(0, 0, 0).unsqueeze(0));
  position_.add_(1).remainder_(history_.size(0));
  latest_.zero_();
  make_scales();
}

IKEBANA_INLINE void FP8Scales::abort() noexcept {
  if (delayed()) latest_.zero_();
}

IKEBANA_INLINE void FP8Scales::state(Archive& archive) {
  if (!delayed()) return;
  const NumberRange index{0, static_cast<double>(history_.size(0) - 1), true,
                          "an index of amax_history"};
  archive.tensor("amax_history", history_, &factor_range);
  archive.tensor("position", position_, &index);
  if (archive.loading()) make_scales();
}

IKEBANA_INLINE void FP8Scales::make_scales() noexcept {
  at::amax_out(amax_, history_, {0});
  at::div_out(scale_, max_, amax_).nan_to_num_(0, 0, 0);
}

}  // namespace ikebana::detail
