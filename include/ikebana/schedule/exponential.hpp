#pragma once
// The policy ExponentialLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate, multiplied by `gamma` after every step. `gamma` has no default. Source:
/// torch.optim.lr_scheduler.ExponentialLR.
struct ExponentialLR {
  double gamma = 0;               ///< factor per step, more than 0
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <std::same_as<ExponentialLR> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<ExponentialLR> {
  explicit Mechanism(ExponentialLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    detail::check_schedule(
        "ExponentialLR", values.gamma > 0,
        "gamma is not given, or not positive. Write ExponentialLR{.gamma = 0.99}.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const { return base * std::pow(values.gamma, t); }
  std::string describe() const {
    return "gamma=" + c10::str(values.gamma) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
