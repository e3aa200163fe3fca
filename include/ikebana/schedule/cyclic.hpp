#pragma once
// Defines the policy CyclicLR and its mechanism.
#include <functional>
#include <ikebana/schedule/cycling.hpp>

namespace ikebana {

/// Cycles of `step_size_up` steps from `base_lr` to `max_lr` and `step_size_down` back, or as many
/// if that is left out. The height of a cycle is halved from cycle to cycle (triangular2),
/// multiplied by `gamma` from step to step (exp_range), or by `scale_fn` of the cycle, which counts
/// from 1, or of the step, instead of what `mode` says. The momentum, or the first beta, moves
/// against the rate, between `max_momentum` and `base_momentum`. `max_lr` has no default;
/// `base_lr`, if it is left out, is the optimizer's lr. Both apply to all groups, which must have
/// one lr. Source: torch.optim.lr_scheduler.CyclicLR; Smith, arXiv:1506.01186.
struct CyclicLR {
  /// The change of a cycle's height.
  enum Mode {
    triangular,   ///< the height does not change from cycle to cycle
    triangular2,  ///< halved from cycle to cycle
    exp_range     ///< times `gamma` from step to step
  };
  /// The argument of `scale_fn`.
  enum ScaleMode {
    cycle,      ///< the cycle, from 1
    iterations  ///< the step, from 0
  };

  std::optional<double> base_lr = {};               ///< the least rate; left out: the optimizer's
  double max_lr = 0;                                ///< the largest rate
  std::int64_t step_size_up = 2000;                 ///< steps of a rise
  std::optional<std::int64_t> step_size_down = {};  ///< steps of a descent; left out: as many
  Mode mode = triangular;                           ///< the change of a cycle's height
  double gamma = 1;                                 ///< factor per step, for exp_range
  /// Returns the factor of the height, in place of `mode`.
  std::function<double(double cycle_or_step)> scale_fn = {};
  ScaleMode scale_mode = cycle;   ///< the argument of `scale_fn`
  bool cycle_momentum = true;     ///< whether the momentum moves, too
  double base_momentum = 0.8;     ///< the momentum at the largest rate
  double max_momentum = 0.9;      ///< the momentum at the least rate
  std::int64_t warmup_steps = 0;  ///< steps of a linear rise before it
};

template <>
struct Mechanism<CyclicLR> : detail::CyclingSchedule<CyclicLR> {
  explicit Mechanism(CyclicLR v) : CyclingSchedule(std::move(v)) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double momentum(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  double momentum_after_warmup(double t) const;
  const char* own_rate() const;
  std::string describe() const;

 private:
  double down() const;
  double length() const { return static_cast<double>(values.step_size_up) + down(); }
  /// Returns the cycle that step `t` is in, from 1.
  double cycle_of(double t) const { return std::floor(1 + t / length()); }
  /// Returns the height within the cycle, from 0 to 1.
  double height(double t) const;
  double scale(double t) const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/cyclic.ipp>
#endif
