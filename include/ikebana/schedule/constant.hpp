#pragma once
// Defines the policy ConstantLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times `factor` for `total_iters` steps, then the base rate. The defaults change
/// nothing. Source: torch.optim.lr_scheduler.ConstantLR, whose default factor is 1/3.
struct ConstantLR {
  double factor = 1;              ///< the factor of the base rate, 0 or more
  std::int64_t total_iters = 0;   ///< steps that have the factor
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<ConstantLR> : detail::WarmupSchedule<ConstantLR> {
  explicit Mechanism(ConstantLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/constant.ipp>
#endif
