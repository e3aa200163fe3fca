#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/fp16.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Precision<FP16>>::attach(c10::Device where, const UnitTable&) {
  detail::Autocast<at::kHalf>::attach("Precision<FP16>", where, values.cpu_products);
  auto options = at::TensorOptions(where).dtype(at::kFloat);
  scale_ = at::full({}, values.init_scale, options);
  growth_ = at::zeros({}, options.dtype(at::kInt));
  skips_ = at::zeros({}, options);
}

IKEBANA_INLINE at::Tensor Mechanism<Precision<FP16>>::scale(const at::Tensor& seed) {
  check();
  return seed * scale_.to(seed.scalar_type());
}

IKEBANA_INLINE void Mechanism<Precision<FP16>>::unscale(StepGradients& gradients) {
  gradients.divide(scale_);
  gradients.protocol.loss_is_scaled = true;
}

IKEBANA_INLINE void Mechanism<Precision<FP16>>::end_step(const StepGradients&,
                                                         Report& report) noexcept {
  report.must_be_finite = false;
  if (detail::readable(scale_)) return adapt_scale(detail::number(found_) != 0);
  const auto compared = std::exchange(compared_interval_, values.growth_interval);
  if (compared != values.growth_interval || detail::recording())
    growth_.clamp_max_(values.growth_interval - 1);  // the operator compares for equality
  at::_amp_update_scale_(scale_, growth_, found_, values.growth_factor, values.backoff_factor,
                         values.growth_interval);
  scale_.clamp_min_(values.min_scale);
  skips_.add_(1).mul_(found_);
}

IKEBANA_INLINE std::string Mechanism<Precision<FP16>>::describe() const {
  return with_products("autocast to Half, dynamic loss scale");
}

IKEBANA_INLINE void Mechanism<Precision<FP16>>::state(Archive& archive, const Masters&) {
  archive.tensor("loss_scale", scale_, &positive_range);
  archive.tensor("growth_tracker", growth_, &count_range);
  archive.tensor("skips", skips_, &count_range);
  if (archive.loading()) compared_interval_ = 0;
}

IKEBANA_INLINE void Mechanism<Precision<FP16>>::check() const {
  if (values.init_scale > 0 && values.growth_factor >= 1 && values.backoff_factor > 0 &&
      values.backoff_factor < 1 && values.growth_interval > 0 && values.min_scale > 0 &&
      values.max_skips >= 0 &&
      std::isfinite(values.init_scale + values.growth_factor + values.min_scale))
    return detail::check_unchanged(values.init_scale == init_scale_, "Precision<FP16>: init_scale");
  throw BadValue("Precision<FP16>: init_scale is " + c10::str(values.init_scale) +
                 ", growth_factor " + c10::str(values.growth_factor) + ", backoff_factor " +
                 c10::str(values.backoff_factor) + ", growth_interval " +
                 c10::str(values.growth_interval) + ", min_scale " + c10::str(values.min_scale) +
                 ", max_skips " + c10::str(values.max_skips) +
                 "; scales and the interval must be positive and finite, growth_factor at least 1, "
                 "backoff_factor "
                 "between 0 and 1, and max_skips not negative.");
}

IKEBANA_INLINE void Mechanism<Precision<FP16>>::adapt_scale(bool overflowed) noexcept {
  auto& scale = *scale_.data_ptr<float>();
  auto& growth = *growth_.data_ptr<int>();
  auto& skips = *skips_.data_ptr<float>();
  if (overflowed) {
    scale = static_cast<float>(scale * values.backoff_factor);
    growth = 0;
  } else if (++growth >= values.growth_interval) {
    const auto larger = static_cast<float>(scale * values.growth_factor);
    if (std::isfinite(larger)) scale = larger;
    growth = 0;
  }
  scale = std::max(scale, static_cast<float>(values.min_scale));
  skips = overflowed ? skips + 1 : 0;
}

}  // namespace ikebana
