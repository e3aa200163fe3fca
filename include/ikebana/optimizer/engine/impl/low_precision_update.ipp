#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/low_precision_update.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void LowPrecisionUpdate::begin(const Masters& masters) {
  rounding_ = masters.rounding, first_index_ = masters.first;
  for (const auto& p : masters.values)
    if (is_rounded(p)) max_elements_ = std::max(max_elements_, p.numel());
}

IKEBANA_INLINE at::Tensor LowPrecisionUpdate::operand(const at::Tensor& gradient,
                                                      const at::Tensor& p) {
  return is_rounded(p) && !gradient.is_sparse() ? like(p, gradient_) : gradient;
}

IKEBANA_INLINE at::Tensor LowPrecisionUpdate::prepare(at::Tensor gradient, const at::Tensor& p) {
  if (!is_rounded(p)) return gradient;
  make_scratch(p);
  rounding_->prepare_rounding(value_.options(), max_elements_);
  return gradient.is_sparse() ? gradient.to(at::kFloat) : gradient;
}

IKEBANA_INLINE void LowPrecisionUpdate::prepare_rounded(MasterBucket& bucket, std::size_t j) {
  const at::Tensor& p = bucket.parameters[j];
  bucket.in_fp32.push_back(single_bucket(bucket, j));
  bucket.flat.push_back(in_memory_order(p));
  bucket.flat_in_fp32.push_back(value_.narrow(0, 0, p.numel()));
}

IKEBANA_INLINE const Bucket& LowPrecisionUpdate::to_fp32(const MasterBucket& bucket,
                                                         std::size_t j) {
  const Bucket& single = bucket.in_fp32[j];
  const at::Tensor& gradient = bucket.gradients[j];
  single.parameters[0].copy_(bucket.parameters[j]);
  if (!gradient.is_sparse()) single.gradients[0].copy_(gradient);
  return single;
}

IKEBANA_INLINE void LowPrecisionUpdate::write_back(const MasterBucket& bucket,
                                                   std::size_t j) noexcept {
  rounding_->write(bucket.flat[j], bucket.flat_in_fp32[j], first_index_ + bucket.indices[j]);
}

IKEBANA_INLINE void LowPrecisionUpdate::make_scratch(const at::Tensor& p) {
  auto options = p.options().dtype(at::kFloat).requires_grad(false);
  for (at::Tensor* scratch : {&value_, &gradient_})
    if (!scratch->defined()) *scratch = at::empty({max_elements_}, options);
}

IKEBANA_INLINE at::Tensor LowPrecisionUpdate::like(const at::Tensor& p, at::Tensor& scratch) {
  make_scratch(p);
  return scratch.as_strided(p.sizes(), p.strides());
}

IKEBANA_INLINE Bucket LowPrecisionUpdate::single_bucket(const Bucket& all, std::size_t j) {
  const at::Tensor& p = all.parameters[j];
  Bucket single{.group = all.group,
                .first_step = all.first_step,
                .numbers = all.numbers,
                .rate = all.rate,
                .lr = all.lr,
                .parameters = {operand(p)},
                .gradients = {operand(all.gradients[j], p)},
                .steps = {all.steps[j]},
                .indices = {all.indices[j]}};
  for (const Tensors& slot : all.state) single.state.push_back({slot[j]});
  return single;
}

}  // namespace ikebana::detail
