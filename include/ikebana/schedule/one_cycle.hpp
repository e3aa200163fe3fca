#pragma once
// Defines the policy OneCycleLR and its mechanism.
#include <ikebana/schedule/cycling.hpp>

namespace ikebana {

/// One cycle of `total_steps` steps, or `epochs * steps_per_epoch`: from `max_lr / div_factor` up
/// to `max_lr` in the first `pct_start` of them, then down to `max_lr / div_factor /
/// final_div_factor`. The momentum, or the first beta, moves against it, from `max_momentum` down
/// to `base_momentum` and up again. With `three_phase` the descent to the first rate is as long as
/// the rise, and the rest goes on to the last rate. `max_lr` replaces the lr of the optimizer and
/// of its groups, which must have the same one; if it is left out, the lr of the optimizer or of
/// each group is its maximum. The number of steps has no default; a step beyond it throws BadValue
/// and is undone. Source: torch.optim.lr_scheduler.OneCycleLR; Smith and Topin, arXiv:1708.07120.
struct OneCycleLR {
  /// The form of rise and descent.
  enum AnnealStrategy {
    cos,    ///< half a cosine
    linear  ///< a straight line
  };

  std::optional<double> max_lr = {};     ///< the largest rate; left out: the optimizer's lr
  std::int64_t total_steps = 0;          ///< steps; 0: epochs * steps_per_epoch
  std::int64_t epochs = 0;               ///< in place of total_steps
  std::int64_t steps_per_epoch = 0;      ///< in place of total_steps
  double pct_start = 0.3;                ///< fraction of the steps that rise, in [0, 1]
  AnnealStrategy anneal_strategy = cos;  ///< the form of rise and descent
  bool cycle_momentum = true;            ///< whether the momentum moves, too
  double base_momentum = 0.85;           ///< the momentum at the largest rate
  double max_momentum = 0.95;            ///< the momentum at the first and the last rate
  double div_factor = 25;                ///< max_lr over the first rate
  double final_div_factor = 1e4;         ///< the first rate over the last one
  bool three_phase = false;              ///< a descent to the first rate, then one to the last
  std::int64_t warmup_steps = 0;         ///< steps of a linear rise before it
};

template <>
struct Mechanism<OneCycleLR> : detail::CyclingSchedule<OneCycleLR> {
  explicit Mechanism(OneCycleLR v) : CyclingSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double momentum(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  double momentum_after_warmup(double t) const;
  const char* own_rate() const;
  std::string describe() const;

 private:
  template <class Text>
  static void good(bool is_good, const Text& what) {
    if (is_good) return;
    if constexpr (std::is_invocable_v<const Text&>)
      detail::check_schedule("OneCycleLR", false, what().c_str());
    else detail::check_schedule("OneCycleLR", false, what);
  }
  void check_length() const;
  double total() const;
  /// Returns the step at which the maximum is reached, as in PyTorch. It need not be a whole
  /// number.
  double rise() const { return values.pct_start * total() - 1; }
  double between(double from, double to, double part) const;
  double annealed(double t, double first, double top, double last) const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/one_cycle.ipp>
#endif
