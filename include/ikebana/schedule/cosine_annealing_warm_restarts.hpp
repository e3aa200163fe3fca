#pragma once
// Defines the policy CosineAnnealingWarmRestarts and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// Half a cosine from the base rate to `eta_min` in `T_0` steps; then it restarts from the base
/// rate, and takes `T_mult` times as many steps as before. `T_0` has no default. Source:
/// torch.optim.lr_scheduler.CosineAnnealingWarmRestarts, whose `step(epoch + i / batches)` is
/// T_0 = epochs * batches here; Loshchilov and Hutter, arXiv:1608.03983.
struct CosineAnnealingWarmRestarts {
  std::int64_t T_0 = 0;           ///< steps until the first restart
  std::int64_t T_mult = 1;        ///< factor of the length after each restart
  double eta_min = 0;             ///< the learning rate before a restart
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<CosineAnnealingWarmRestarts>
    : detail::WarmupSchedule<CosineAnnealingWarmRestarts> {
  explicit Mechanism(CosineAnnealingWarmRestarts v) : WarmupSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/cosine_annealing_warm_restarts.ipp>
#endif
