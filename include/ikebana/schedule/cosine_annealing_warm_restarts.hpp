#pragma once
// The policy CosineAnnealingWarmRestarts and its mechanism.
#include <ikebana/schedule/schedule.hpp>
#include <numbers>

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

template <std::same_as<CosineAnnealingWarmRestarts> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<CosineAnnealingWarmRestarts> {
  explicit Mechanism(CosineAnnealingWarmRestarts v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    const char* name = "CosineAnnealingWarmRestarts";
    detail::check_schedule(name, values.T_0 > 0,
                           "T_0 is not given. Write CosineAnnealingWarmRestarts{.T_0 = steps}.");
    detail::check_schedule(name, values.T_mult >= 1, "T_mult must be 1 or more.");
    detail::check_schedule(name, values.eta_min >= 0, "eta_min must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    double length = static_cast<double>(values.T_0);
    if (values.T_mult == 1) t = std::fmod(t, length);
    for (; t >= length; length *= static_cast<double>(values.T_mult)) t -= length;
    const double angle = std::numbers::pi * t / length;
    return values.eta_min + (base - values.eta_min) * (1 + std::cos(angle)) / 2;
  }
  std::string describe() const {
    return "T_0=" + std::to_string(values.T_0) + ", T_mult=" + std::to_string(values.T_mult) +
           ", eta_min=" + c10::str(values.eta_min) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
