#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/cosine_annealing.hpp>
#include <numbers>

namespace ikebana {

IKEBANA_INLINE void Mechanism<CosineAnnealingLR>::check() const {
  detail::check_schedule("CosineAnnealingLR", values.T_max > 0,
                         "T_max is not given. Write CosineAnnealingLR{.T_max = steps}.");
  detail::check_schedule("CosineAnnealingLR", values.eta_min >= 0, "eta_min must not be negative.");
}

IKEBANA_INLINE double Mechanism<CosineAnnealingLR>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<CosineAnnealingLR>::after_warmup(double base, double t) const {
  double angle = std::numbers::pi * t / static_cast<double>(values.T_max);
  return values.eta_min + (base - values.eta_min) * (1 + std::cos(angle)) / 2;
}

IKEBANA_INLINE std::string Mechanism<CosineAnnealingLR>::describe() const {
  return "T_max=" + std::to_string(values.T_max) + ", eta_min=" + c10::str(values.eta_min) +
         ", warmup_steps=" + std::to_string(values.warmup_steps);
}

}  // namespace ikebana
