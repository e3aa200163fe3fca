#pragma once
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/standard_scaler.hpp>
#include <limits>

namespace ikebana::modules {

IKEBANA_INLINE StandardScalerImpl::StandardScalerImpl(std::int64_t columns) {
  if (columns < 1)
    throw BadValue("StandardScaler: it has " + std::to_string(columns) +
                   " columns. Give it the number of columns of its input, 1 or more.");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  mean = register_buffer("mean", at::full({columns}, nan, at::kDouble));
  scale = register_buffer("scale", at::full({columns}, nan, at::kDouble));
  n_samples_seen = register_buffer("n_samples_seen", at::zeros({columns}, at::kLong));
}

IKEBANA_INLINE StandardScalerImpl& StandardScalerImpl::fit(const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const std::int64_t columns = mean.size(0);
  if (!x.defined() || x.dim() != 2 || x.size(1) != columns || x.size(0) == 0)
    throw BadBatch("StandardScaler: fit takes the training rows, (rows, " +
                   std::to_string(columns) + "), and was given " + detail::tensor_text(x) +
                   ". Give it a tensor of that shape with at least one row.");
  const at::Tensor wide = widened(x).to(mean.device());
  const at::Tensor count = wide.isnan().logical_not_().sum(0);
  const at::Tensor first = at::nanmean(wide, 0);
  for (std::int64_t i = 0; i < columns; ++i)
    if (!std::isfinite(first[i].item<double>()))
      throw BadBatch("StandardScaler: column " + std::to_string(i) +
                     (count[i].item<std::int64_t>() == 0 ? " has no value but NaN"
                                                         : " has an infinite value") +
                     " in the training rows. Leave the column out, or correct it.");
  const at::Tensor distance = wide - first;
  const at::Tensor variance = at::nanmean(distance.square(), 0) - at::nanmean(distance, 0).square();
  const double eps = std::numeric_limits<double>::epsilon();
  const at::Tensor bound =
      eps * count.to(at::kDouble) * variance + (count.to(at::kDouble) * first * eps).square();
  mean.copy_(first);
  scale.copy_(at::where(variance.le(bound), at::ones_like(variance), variance.sqrt()));
  n_samples_seen.copy_(count);
  is_fitted_ = true;
  return *this;
}

IKEBANA_INLINE at::Tensor StandardScalerImpl::widened(const at::Tensor& x) {
  return x.to(at::kDouble);
}

IKEBANA_INLINE at::Tensor StandardScalerImpl::narrowed(const at::Tensor& y,
                                                       const at::Tensor& x) const {
  return y.to(x.is_floating_point() ? x.scalar_type() : at::get_default_dtype_as_scalartype());
}

IKEBANA_INLINE void StandardScalerImpl::check(const at::Tensor& x, const char* method) {
  if (!x.defined() || x.dim() < 1 || x.size(-1) != mean.size(0))
    throw BadBatch("StandardScaler: " + std::string(method) + " takes (..., " +
                   std::to_string(mean.size(0)) + "), and was given " + detail::tensor_text(x) +
                   ". Give it the columns on which it was fitted, in their order.");
  if (is_fitted_ || !n_samples_seen.is_cpu() || !readable(n_samples_seen)) return;
  if (!n_samples_seen.gt(0).all().item<bool>())
    throw BadModel(
        "StandardScaler: it was neither fitted nor loaded. Make it by "
        "StandardScaler::fit(training_rows), or load a state that has it.");
  is_fitted_ = true;
}

IKEBANA_INLINE at::Tensor StandardScalerImpl::transform(const at::Tensor& x) {
  check(x, "transform");
  return narrowed((widened(x) - mean) / scale, x);
}

IKEBANA_INLINE at::Tensor StandardScalerImpl::inverse_transform(const at::Tensor& x) {
  check(x, "inverse_transform");
  return narrowed(widened(x) * scale + mean, x);
}

IKEBANA_INLINE void StandardScalerImpl::pretty_print(std::ostream& out) const {
  out << "ikebana::modules::StandardScaler(" << mean.size(0) << ')';
}

IKEBANA_INLINE StandardScaler StandardScaler::fit(const at::Tensor& x) {
  StandardScaler scaler(std::max<std::int64_t>(x.defined() && x.dim() == 2 ? x.size(1) : 1, 1));
  scaler->fit(x);
  return scaler;
}

}  // namespace ikebana::modules
