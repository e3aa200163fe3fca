#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/cosine_annealing_warm_restarts.hpp>
#include <numbers>

namespace ikebana {

IKEBANA_INLINE void Mechanism<CosineAnnealingWarmRestarts>::check() const {
  const char* name = "CosineAnnealingWarmRestarts";
  detail::check_schedule(name, values.T_0 > 0,
                         "T_0 is not given. Write CosineAnnealingWarmRestarts{.T_0 = steps}.");
  detail::check_schedule(name, values.T_mult >= 1, "T_mult must be 1 or more.");
  detail::check_schedule(name, values.eta_min >= 0, "eta_min must not be negative.");
}

IKEBANA_INLINE double Mechanism<CosineAnnealingWarmRestarts>::rate(double base,
                                                                   std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<CosineAnnealingWarmRestarts>::after_warmup(double base,
                                                                           double t) const {
  double length = static_cast<double>(values.T_0);
  if (values.T_mult == 1) t = std::fmod(t, length);
  for (; t >= length; length *= static_cast<double>(values.T_mult)) t -= length;
  const double angle = std::numbers::pi * t / length;
  return values.eta_min + (base - values.eta_min) * (1 + std::cos(angle)) / 2;
}

IKEBANA_INLINE std::string Mechanism<CosineAnnealingWarmRestarts>::describe() const {
  return "T_0=" + std::to_string(values.T_0) + ", T_mult=" + std::to_string(values.T_mult) +
         ", eta_min=" + c10::str(values.eta_min) +
         ", warmup_steps=" + std::to_string(values.warmup_steps);
}

}  // namespace ikebana
