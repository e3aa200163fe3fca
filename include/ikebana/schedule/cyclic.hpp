#pragma once
// The policy CyclicLR and its mechanism.
#include <functional>
#include <ikebana/schedule/cycling.hpp>

namespace ikebana {

/// Cycles of `step_size_up` steps from `base_lr` to `max_lr` and `step_size_down` back, which are
/// as many where it is left out. The height of a cycle is halved from cycle to cycle (triangular2),
/// multiplied by `gamma` from step to step (exp_range), or by `scale_fn` of the cycle, which counts
/// from 1, or of the step, instead of what `mode` says. The momentum, or the first beta, moves
/// against the rate, between `max_momentum` and `base_momentum`. `max_lr` has no default; `base_lr`
/// is the optimizer's lr where it is left out. Both are those of all groups, which must have one
/// lr. Source: torch.optim.lr_scheduler.CyclicLR; Smith, arXiv:1506.01186.
struct CyclicLR {
  /// How the height of cycles changes.
  enum Mode {
    triangular,   ///< not at all
    triangular2,  ///< halved from cycle to cycle
    exp_range     ///< times `gamma` from step to step
  };
  /// What `scale_fn` is a function of.
  enum ScaleMode {
    cycle,      ///< the cycle, from 1
    iterations  ///< the step, from 0
  };

  std::optional<double> base_lr = {};               ///< the least rate; left out: the optimizer's
  double max_lr = 0;                                ///< the largest rate
  std::int64_t step_size_up = 2000;                 ///< steps of a rise
  std::optional<std::int64_t> step_size_down = {};  ///< steps of a descent; left out: as many
  Mode mode = triangular;                           ///< how cycles change
  double gamma = 1;                                 ///< factor per step, for exp_range
  /// The height's factor, in place of `mode`.
  std::function<double(double cycle_or_step)> scale_fn = {};
  ScaleMode scale_mode = cycle;   ///< what `scale_fn` is given
  bool cycle_momentum = true;     ///< whether the momentum moves, too
  double base_momentum = 0.8;     ///< at the largest rate
  double max_momentum = 0.9;      ///< at the least rate
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <std::same_as<CyclicLR> Policy>
struct Mechanism<Policy> : detail::CyclingSchedule<CyclicLR> {
  explicit Mechanism(CyclicLR v) : CyclingSchedule(std::move(v)) { check_values(*this); }

  void check() const {
    const auto& v = values;
    const char* name = "CyclicLR";
    detail::check_schedule(name, v.max_lr > 0,
                           "max_lr is not given, or not positive. Write CyclicLR{.base_lr = 1e-3, "
                           ".max_lr = 1e-2}.");
    detail::check_schedule(name, !v.base_lr || *v.base_lr >= 0, "base_lr must not be negative.");
    detail::check_schedule(name, v.step_size_up > 0 && v.step_size_down.value_or(0) >= 0,
                           "step_size_up must be 1 or more, step_size_down 0 or more.");
    detail::check_schedule(name, v.gamma >= 0, "gamma must not be negative.");
    check_momentum();
  }
  double rate(double base, std::int64_t step) const {
    return CyclingSchedule::rate(*this, base, step);
  }
  double momentum(double base, std::int64_t step) const {
    return CyclingSchedule::momentum(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    const double low = values.base_lr.value_or(base);
    return low + (values.max_lr - low) * height(t) * scale(t);
  }
  double momentum_after_warmup(double t) const {
    const double high = values.max_momentum;
    return high - (high - values.base_momentum) * height(t) * scale(t);
  }
  const char* own_rate() const {
    return "Give all of them one lr, or write a LambdaLR, which multiplies the lr of each.";
  }
  std::string describe() const {
    const auto& v = values;
    const char* modes[] = {"triangular", "triangular2", "exp_range"};
    return (v.base_lr ? "base_lr=" + c10::str(*v.base_lr) + ", " : "") +
           "max_lr=" + c10::str(v.max_lr) + ", step_size_up=" + std::to_string(v.step_size_up) +
           ", step_size_down=" + c10::str(down()) +
           ", mode=" + (v.scale_fn ? "scale_fn" : modes[v.mode]) +
           (v.mode == v.exp_range ? ", gamma=" + c10::str(v.gamma) : "") +
           (v.scale_fn && v.scale_mode == v.iterations ? ", scale_mode=iterations" : "") +
           (v.cycle_momentum
                ? ", momentum=" + c10::str(v.base_momentum) + " to " + c10::str(v.max_momentum)
                : "") +
           ", warmup_steps=" + std::to_string(v.warmup_steps);
  }

 private:
  double down() const {
    return static_cast<double>(values.step_size_down.value_or(values.step_size_up));
  }
  double length() const { return static_cast<double>(values.step_size_up) + down(); }
  /// The cycle that step `t` is in, from 1.
  double cycle_of(double t) const { return std::floor(1 + t / length()); }
  /// How far up the step is, from 0 to 1.
  double height(double t) const {
    const double part = 1 + t / length() - cycle_of(t);
    const double top = static_cast<double>(values.step_size_up) / length();
    return part <= top ? part / top : (part - 1) / (top - 1);
  }
  double scale(double t) const {
    const auto& v = values;
    if (v.scale_fn) return v.scale_fn(v.scale_mode == v.cycle ? cycle_of(t) : t);
    if (v.mode == v.triangular2) return 1 / std::pow(2, cycle_of(t) - 1);
    return v.mode == v.exp_range ? std::pow(v.gamma, t) : 1;
  }
};

}  // namespace ikebana
