#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/polynomial.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<PolynomialLR>::check() const {
  detail::check_schedule("PolynomialLR", values.total_iters > 0,
                         "total_iters is not given. Write PolynomialLR{.total_iters = steps}.");
  detail::check_schedule("PolynomialLR", values.power >= 0, "power must not be negative.");
}

IKEBANA_INLINE double Mechanism<PolynomialLR>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<PolynomialLR>::after_warmup(double base, double t) const {
  const double n = static_cast<double>(values.total_iters);
  return base * std::pow(1 - std::min(t, n) / n, values.power);
}

IKEBANA_INLINE std::string Mechanism<PolynomialLR>::describe() const {
  return "total_iters=" + std::to_string(values.total_iters) + ", power=" + c10::str(values.power) +
         ", warmup_steps=" + std::to_string(values.warmup_steps);
}

}  // namespace ikebana
