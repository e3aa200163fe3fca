#pragma once
// Defines the policy CosineAnnealingLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// Half a cosine from the base rate to `eta_min` in the `T_max` steps after the warm-up. As in
/// PyTorch, the rate then rises again, with period 2 T_max. `T_max` has no default. Source:
/// torch.optim.lr_scheduler.CosineAnnealingLR; Loshchilov and Hutter, arXiv:1608.03983.
struct CosineAnnealingLR {
  std::int64_t T_max = 0;         ///< steps from the base rate to eta_min
  double eta_min = 0;             ///< the least learning rate
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<CosineAnnealingLR> : detail::WarmupSchedule<CosineAnnealingLR> {
  explicit Mechanism(CosineAnnealingLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/cosine_annealing.ipp>
#endif
