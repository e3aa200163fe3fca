#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/exponential.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<ExponentialLR>::check() const {
  detail::check_schedule(
      "ExponentialLR", values.gamma > 0,
      "gamma is not given, or not positive. Write ExponentialLR{.gamma = 0.99}.");
}

IKEBANA_INLINE double Mechanism<ExponentialLR>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE std::string Mechanism<ExponentialLR>::describe() const {
  return "gamma=" + c10::str(values.gamma) +
         ", warmup_steps=" + std::to_string(values.warmup_steps);
}

}  // namespace ikebana
