#pragma once
// Defines the policy StepLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate, multiplied by `gamma` after every `step_size` steps. `step_size` has no default.
/// Source: torch.optim.lr_scheduler.StepLR.
struct StepLR {
  std::int64_t step_size = 0;     ///< steps of one rate
  double gamma = 0.1;             ///< factor after them
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<StepLR> : detail::WarmupSchedule<StepLR> {
  explicit Mechanism(StepLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    detail::check_schedule("StepLR", values.step_size > 0,
                           "step_size is not given. Write StepLR{.step_size = steps}.");
    detail::check_schedule("StepLR", values.gamma >= 0, "gamma must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    return base * std::pow(values.gamma, std::floor(t / static_cast<double>(values.step_size)));
  }
  std::string describe() const {
    return "step_size=" + std::to_string(values.step_size) + ", gamma=" + c10::str(values.gamma) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
