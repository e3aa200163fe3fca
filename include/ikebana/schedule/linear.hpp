#pragma once
// The policy LinearLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times a factor that goes linearly from `start_factor` to `end_factor` in
/// `total_iters` steps and then stays. `total_iters` has no default. Source:
/// torch.optim.lr_scheduler.LinearLR.
struct LinearLR {
  double start_factor = 1.0 / 3;  ///< of the base rate, in the first step
  double end_factor = 1;          ///< of the base rate, from step total_iters on
  std::int64_t total_iters = 0;   ///< steps
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <std::same_as<LinearLR> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<LinearLR> {
  explicit Mechanism(LinearLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    detail::check_schedule("LinearLR", values.total_iters > 0,
                           "total_iters is not given. Write LinearLR{.total_iters = steps}.");
    detail::check_schedule("LinearLR", values.start_factor >= 0 && values.end_factor >= 0,
                           "start_factor and end_factor must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    double n = static_cast<double>(values.total_iters);
    return base *
           (values.start_factor + (values.end_factor - values.start_factor) * std::min(t, n) / n);
  }
  std::string describe() const {
    return "start_factor=" + c10::str(values.start_factor) +
           ", end_factor=" + c10::str(values.end_factor) +
           ", total_iters=" + std::to_string(values.total_iters) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
