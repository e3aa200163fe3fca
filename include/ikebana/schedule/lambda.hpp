#pragma once
// The policy LambdaLR and its mechanism.
#include <functional>
#include <ikebana/schedule/schedule.hpp>

namespace ikebana {

/// The base rate times `lr_lambda(step)` for every parameter group; steps count from 0 after the
/// warm-up. Nothing is saved, so `lr_lambda` must depend on the step only. It has no default. If it
/// makes a rate negative or not finite, that step throws BadValue and is undone. Source:
/// torch.optim.lr_scheduler.LambdaLR.
struct LambdaLR {
  /// The factor of the base rate in a step.
  std::function<double(std::int64_t step)> lr_lambda = {};
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <std::same_as<LambdaLR> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<LambdaLR> {
  explicit Mechanism(LambdaLR v) : WarmupSchedule(std::move(v)) { check_values(*this); }

  void check() const {
    detail::check_schedule("LambdaLR", static_cast<bool>(values.lr_lambda),
                           "lr_lambda is not given. Write LambdaLR{.lr_lambda = [](std::int64_t "
                           "step) { return 1.0 / (1 + step); }}.");
  }

  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    return base * values.lr_lambda(static_cast<std::int64_t>(t));
  }
  std::string describe() const {
    return "lr_lambda, warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
