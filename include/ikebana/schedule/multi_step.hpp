#pragma once
// Defines the policy MultiStepLR and its mechanism.
#include <algorithm>
#include <ikebana/schedule/schedule.hpp>
#include <vector>

namespace ikebana {

/// The base rate, multiplied by `gamma` at each of the `milestones`, which are steps in increasing
/// order; one that is written twice counts twice, as in PyTorch. `milestones` has no default.
/// Source: torch.optim.lr_scheduler.MultiStepLR.
struct MultiStepLR {
  std::vector<std::int64_t> milestones = {};  ///< steps
  double gamma = 0.1;                         ///< factor at each of them
  std::int64_t warmup_steps = 0;              ///< steps of a linear rise before it
};

template <>
struct Mechanism<MultiStepLR> : detail::WarmupSchedule<MultiStepLR> {
  explicit Mechanism(MultiStepLR v) : WarmupSchedule(std::move(v)) { check_values(*this); }

  void check() const {
    const auto& milestones = values.milestones;
    detail::check_schedule("MultiStepLR", !milestones.empty(),
                           "milestones is not given. Write MultiStepLR{.milestones = {60, 80}}.");
    detail::check_schedule(
        "MultiStepLR", milestones[0] >= 0 && std::is_sorted(milestones.begin(), milestones.end()),
        "milestones must be steps in increasing order, from 0 on.");
    detail::check_schedule("MultiStepLR", values.gamma >= 0, "gamma must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    const auto& milestones = values.milestones;
    const auto passed =
        std::upper_bound(milestones.begin(), milestones.end(), static_cast<std::int64_t>(t)) -
        milestones.begin();
    return base * std::pow(values.gamma, static_cast<double>(passed));
  }
  std::string describe() const {
    return "milestones=" + detail::braced(values.milestones) + ", gamma=" + c10::str(values.gamma) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }
};

}  // namespace ikebana
