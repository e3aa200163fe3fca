#pragma once
// The policy PolynomialLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times `(1 - step / total_iters) ^ power`, then 0. `total_iters` has no default.
/// Source: torch.optim.lr_scheduler.PolynomialLR.
struct PolynomialLR {
  std::int64_t total_iters = 0;   ///< steps until the rate is 0
  double power = 1;               ///< 1: a straight line
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <std::same_as<PolynomialLR> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<PolynomialLR> {
  explicit Mechanism(PolynomialLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    detail::check_schedule("PolynomialLR", values.total_iters > 0,
                           "total_iters is not given. Write PolynomialLR{.total_iters = steps}.");
    detail::check_schedule("PolynomialLR", values.power >= 0, "power must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    const double n = static_cast<double>(values.total_iters);
    return base * std::pow(1 - std::min(t, n) / n, values.power);
  }
  std::string describe() const {
    return "total_iters=" + std::to_string(values.total_iters) +
           ", power=" + c10::str(values.power) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
