#pragma once
// Defines the policy PolynomialLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times `(1 - step / total_iters) ^ power`, then 0. `total_iters` has no default.
/// Source: torch.optim.lr_scheduler.PolynomialLR.
struct PolynomialLR {
  std::int64_t total_iters = 0;   ///< steps until the rate is 0
  double power = 1;               ///< 1: a straight line
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<PolynomialLR> : detail::WarmupSchedule<PolynomialLR> {
  explicit Mechanism(PolynomialLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/polynomial.ipp>
#endif
