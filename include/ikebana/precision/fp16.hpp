#pragma once
// The policy Precision<FP16> and its mechanism.
#include <ikebana/hooks/non_finite.hpp>
#include <ikebana/precision/autocast.hpp>

namespace ikebana {

/// Autocast to FP16 with a dynamic loss scale: gradients too small for FP16 are scaled up, and a
/// step whose gradients overflow is skipped and lowers the scale. Cost: one more pass over the
/// gradients, which ClipGradNorm's norm makes unnecessary; on a CPU as Precision<BF16>. Fields and
/// defaults as torch.amp.GradScaler, and two more: the scale never falls below `min_scale`, and
/// more than `max_skips` skipped steps in a row throw NonFinite.
template <>
struct Precision<FP16> {
  double init_scale = 65536;            ///< of the loss, in the first step
  double growth_factor = 2;             ///< of the scale, after growth_interval steps
  double backoff_factor = 0.5;          ///< of the scale, after an overflow
  std::int64_t growth_interval = 2000;  ///< steps without an overflow until the scale grows
  double min_scale = 1.0 / 16384;       ///< the scale falls no further
  std::int64_t max_skips = 50;          ///< skipped steps in a row that are allowed
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies
};

template <std::same_as<Precision<FP16>> Policy>
struct Mechanism<Policy> : detail::Autocast<at::kHalf> {
  using carries_out = Precision<FP16>;
  Precision<FP16> values;
  explicit Mechanism(Precision<FP16> v) : values(v), init_scale_(v.init_scale) { check(); }

  void attach(c10::Device where, const UnitTable&) {
    detail::Autocast<at::kHalf>::attach("Precision<FP16>", where, values.cpu_products);
    auto options = at::TensorOptions(where).dtype(at::kFloat);
    scale_ = at::full({}, values.init_scale, options);
    growth_ = at::zeros({}, options.dtype(at::kInt));
    skips_ = at::zeros({}, options);
  }
  at::Tensor scale(const at::Tensor& seed) {
    check();
    return seed * scale_.to(seed.scalar_type());
  }
  void unscale(StepGradients& gradients) {
    gradients.divide(scale_);
    gradients.loss_is_scaled = true;
  }

  /// Rejects the step if a gradient of any rank is not finite, or was not before a policy changed
  /// it. Where a norm of all gradients is known, its value tells. A step that only another policy
  /// rejects says nothing about the scale.
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks& ranks,
              detail::DeferredCheck& deferred) {
    const bool norm_tells = gradients.norm.defined() && gradients.norm_is_current;
    at::Tensor found = norm_tells ? detail::non_finite_flag(gradients, gradients.norm)
                                  : detail::any_non_finite(gradients);
    if (gradients.overflow.defined()) found = at::maximum(found, gradients.overflow);
    if (!norm_tells || gradients.overflow.defined()) found = ranks.slices().sum(found).clamp_max(1);
    found_ = found.to(scale_.device(), /*non_blocking=*/true);
    gradients.reject(found);
    deferred.expect_zero(
        (skips_ + found).gt(values.max_skips).to(at::kFloat), [max = values.max_skips] {
          throw NonFinite(
              "Precision<FP16>: more than " + std::to_string(max) +
              " steps in a row had gradients that are not finite, whatever the loss scale. Use "
              "Precision<BF16>, lower the learning rate, or look for an operation that leaves "
              "FP16's range.");
        });
  }
  void end_step(const StepGradients&, Report& report) noexcept {
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
  /// The current loss scale. Waits for the device.
  double loss_scale() const { return detail::number(scale_); }
  std::string describe() const {
    return this->with_products("autocast to Half, dynamic loss scale");
  }
  void state(Archive& archive, const Masters&) {
    archive.tensor("loss_scale", scale_, &positive_range);
    archive.tensor("growth_tracker", growth_, &count_range);
    archive.tensor("skips", skips_, &count_range);
    if (archive.loading()) compared_interval_ = 0;
  }

 private:
  void check() const {
    if (values.init_scale > 0 && values.growth_factor >= 1 && values.backoff_factor > 0 &&
        values.backoff_factor < 1 && values.growth_interval > 0 && values.min_scale > 0 &&
        values.max_skips >= 0 &&
        std::isfinite(values.init_scale + values.growth_factor + values.min_scale))
      return detail::check_unchanged(values.init_scale == init_scale_,
                                     "Precision<FP16>: init_scale");
    throw BadValue(
        "Precision<FP16>: init_scale is " + c10::str(values.init_scale) + ", growth_factor " +
        c10::str(values.growth_factor) + ", backoff_factor " + c10::str(values.backoff_factor) +
        ", growth_interval " + c10::str(values.growth_interval) + ", min_scale " +
        c10::str(values.min_scale) + ", max_skips " + c10::str(values.max_skips) +
        "; scales and the interval must be positive and finite, growth_factor at least 1, "
        "backoff_factor "
        "between 0 and 1, and max_skips not negative.");
  }
  /// What at::_amp_update_scale_ and the operators after it compute, on a CPU and without an
  /// allocation.
  void adapt_scale(bool overflowed) noexcept {
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

  double init_scale_;
  std::int64_t compared_interval_ = 0;  // that growth_ is less than, on a device
  at::Tensor scale_, growth_, skips_, found_;
};

}  // namespace ikebana
