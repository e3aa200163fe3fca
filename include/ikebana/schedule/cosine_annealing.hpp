#pragma once
// The policy CosineAnnealingLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>
#include <numbers>

namespace ikebana {

/// Half a cosine from the base rate to `eta_min` in the `T_max` steps after the warm-up. As in
/// PyTorch, the rate then rises again, with period 2 T_max. `T_max` has no default. Source:
/// torch.optim.lr_scheduler.CosineAnnealingLR; Loshchilov and Hutter, arXiv:1608.03983.
struct CosineAnnealingLR {
  std::int64_t T_max = 0;         ///< steps from the base rate to eta_min
  double eta_min = 0;             ///< the least learning rate
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <std::same_as<CosineAnnealingLR> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<CosineAnnealingLR> {
  explicit Mechanism(CosineAnnealingLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    detail::check_schedule("CosineAnnealingLR", values.T_max > 0,
                           "T_max is not given. Write CosineAnnealingLR{.T_max = steps}.");
    detail::check_schedule("CosineAnnealingLR", values.eta_min >= 0,
                           "eta_min must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    double angle = std::numbers::pi * t / static_cast<double>(values.T_max);
    return values.eta_min + (base - values.eta_min) * (1 + std::cos(angle)) / 2;
  }
  std::string describe() const {
    return "T_max=" + std::to_string(values.T_max) + ", eta_min=" + c10::str(values.eta_min) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
