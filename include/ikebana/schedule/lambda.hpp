#pragma once
// Defines the policy LambdaLR and its mechanism.
#include <functional>
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times `lr_lambda(step)` for every parameter group; steps count from 0 after the
/// warm-up. Nothing is saved, so `lr_lambda` must depend on the step only. It has no default. If it
/// makes a rate negative or not finite, that step throws BadValue and is undone. Source:
/// torch.optim.lr_scheduler.LambdaLR.
struct LambdaLR {
  /// Returns the factor of the base rate in a step.
  std::function<double(std::int64_t step)> lr_lambda = {};
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<LambdaLR> : detail::WarmupSchedule<LambdaLR> {
  explicit Mechanism(LambdaLR v) : WarmupSchedule(std::move(v)) { check_values(*this); }

  void check() const;

  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/lambda.ipp>
#endif
