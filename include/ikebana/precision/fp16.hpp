#pragma once
// Defines the policy Precision<FP16> and its mechanism.
#include <ikebana/hooks/non_finite.hpp>
#include <ikebana/precision/autocast.hpp>

namespace ikebana {

/// Autocast to FP16 with a dynamic loss scale: gradients too small for FP16 are scaled up, and a
/// step whose gradients overflow is skipped and lowers the scale. Cost: one more pass over the
/// gradients, which ClipGradNorm's norm makes unnecessary; on a CPU, the cost of Precision<BF16>.
/// Fields and defaults as torch.amp.GradScaler, with two more fields: the scale never falls below
/// `min_scale`, and more than `max_skips` skipped steps in a row throw NonFinite.
template <>
struct Precision<FP16> {
  double init_scale = 65536;            ///< the scale of the loss in the first step
  double growth_factor = 2;             ///< the factor of the scale after growth_interval steps
  double backoff_factor = 0.5;          ///< the factor of the scale after an overflow
  std::int64_t growth_interval = 2000;  ///< steps without an overflow until the scale grows
  double min_scale = 1.0 / 16384;       ///< the scale never falls below it
  std::int64_t max_skips = 50;          ///< skipped steps in a row that are allowed
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies
};

template <>
struct Mechanism<Precision<FP16>> : detail::Autocast<at::kHalf> {
  using carries_out = Precision<FP16>;
  Precision<FP16> values;
  explicit Mechanism(Precision<FP16> v) : values(v), init_scale_(v.init_scale) { check(); }

  void attach(c10::Device where, const UnitTable&);
  at::Tensor scale(const at::Tensor& seed);
  void unscale(StepGradients& gradients);

  /// Rejects the step if a gradient of any rank is not finite, or was not finite before a policy
  /// changed it. If a norm of all gradients is known, it looks at the norm alone. A step that only
  /// another policy rejects does not change the scale.
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks& ranks,
              detail::DeferredCheck& deferred) {
    const bool norm_tells = gradients.norm.defined() && gradients.norm_is_current;
    at::Tensor found = norm_tells ? detail::non_finite_flag(gradients, gradients.norm)
                                  : detail::any_non_finite(gradients);
    if (gradients.protocol.overflow.defined())
      found = at::maximum(found, gradients.protocol.overflow);
    if (!norm_tells || gradients.protocol.overflow.defined())
      found = ranks.slices().sum(found).clamp_max(1);
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
  void end_step(const StepGradients&, Report& report) noexcept;
  /// Returns the current loss scale. Waits for the device.
  double loss_scale() const { return detail::number(scale_); }
  std::string describe() const;
  void state(Archive& archive, const Masters&);

 private:
  void check() const;
  /// Computes what at::_amp_update_scale_ and the operators after it compute, on a CPU and without
  /// an allocation.
  void adapt_scale(bool overflowed) noexcept;

  double init_scale_;
  std::int64_t compared_interval_ = 0;  // `growth_` is below it on a device
  at::Tensor scale_, growth_, skips_, found_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/fp16.ipp>
#endif
