#pragma once
// The policy ConstantLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times `factor` for `total_iters` steps, then the base rate. The defaults change
/// nothing. Source: torch.optim.lr_scheduler.ConstantLR, whose default factor is 1/3.
struct ConstantLR {
  double factor = 1;              ///< of the base rate, 0 or more
  std::int64_t total_iters = 0;   ///< steps that have the factor
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <std::same_as<ConstantLR> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<ConstantLR> {
  explicit Mechanism(ConstantLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    detail::check_schedule("ConstantLR", values.factor >= 0 && values.total_iters >= 0,
                           "factor and total_iters must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    return t < static_cast<double>(values.total_iters) ? base * values.factor : base;
  }
  std::string describe() const {
    return "factor=" + c10::str(values.factor) +
           ", total_iters=" + std::to_string(values.total_iters) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
