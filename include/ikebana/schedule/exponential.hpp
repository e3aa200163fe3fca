#pragma once
// Defines the policy ExponentialLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate, multiplied by `gamma` after every step. `gamma` has no default. Source:
/// torch.optim.lr_scheduler.ExponentialLR.
struct ExponentialLR {
  double gamma = 0;               ///< factor per step, more than 0
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<ExponentialLR> : detail::WarmupSchedule<ExponentialLR> {
  explicit Mechanism(ExponentialLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const { return base * std::pow(values.gamma, t); }
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/exponential.ipp>
#endif
