#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/warmup_stable_decay.hpp>
#include <numbers>

namespace ikebana::detail {

inline double decay_factor(DecayForm form, double u) {
  if (form == DecayForm::Linear) return 1 - u;
  if (form == DecayForm::OneMinusSqrt) return 1 - std::sqrt(u);
  return (1 + std::cos(std::numbers::pi * u)) / 2;
}

IKEBANA_INLINE const char* name_of(DecayForm form) {
  return form == DecayForm::Linear         ? "linear"
         : form == DecayForm::OneMinusSqrt ? "1-sqrt"
                                           : "cosine";
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void Mechanism<WarmupStableDecayLR>::check() const {
  const char* name = "WarmupStableDecayLR";
  detail::check_schedule(
      name, values.decay_steps > 0,
      "decay_steps is not given. Write WarmupStableDecayLR{.stable_steps = steps, .decay_steps = "
      "steps}.");
  detail::check_schedule(name, values.stable_steps >= 0 && values.eta_min >= 0,
                         "stable_steps and eta_min must not be negative.");
}

IKEBANA_INLINE double Mechanism<WarmupStableDecayLR>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<WarmupStableDecayLR>::after_warmup(double base, double t) const {
  double decayed = t - static_cast<double>(values.stable_steps);
  if (decayed <= 0) return base;
  double u = std::min(decayed / static_cast<double>(values.decay_steps), 1.0);
  return values.eta_min + (base - values.eta_min) * detail::decay_factor(values.decay, u);
}

IKEBANA_INLINE std::string Mechanism<WarmupStableDecayLR>::describe() const {
  return "warmup_steps=" + std::to_string(values.warmup_steps) +
         ", stable_steps=" + std::to_string(values.stable_steps) +
         ", decay_steps=" + std::to_string(values.decay_steps) +
         ", decay=" + detail::name_of(values.decay) + ", eta_min=" + c10::str(values.eta_min);
}

}  // namespace ikebana
