#pragma once
// Defines the policy LinearLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times a factor that goes linearly from `start_factor` to `end_factor` in
/// `total_iters` steps and then stays. `total_iters` has no default. Source:
/// torch.optim.lr_scheduler.LinearLR.
struct LinearLR {
  double start_factor = 1.0 / 3;  ///< the factor of the base rate in the first step
  double end_factor = 1;          ///< the factor of the base rate from step total_iters on
  std::int64_t total_iters = 0;   ///< steps
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<LinearLR> : detail::WarmupSchedule<LinearLR> {
  explicit Mechanism(LinearLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/linear.ipp>
#endif
