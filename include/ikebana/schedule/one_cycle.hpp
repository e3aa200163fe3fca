#pragma once
// The policy OneCycleLR and its mechanism.
#include <ikebana/schedule/cycling.hpp>
#include <numbers>

namespace ikebana {

/// One cycle of `total_steps` steps, or `epochs * steps_per_epoch`: from `max_lr / div_factor` up
/// to `max_lr` in the first `pct_start` of them, then down to `max_lr / div_factor /
/// final_div_factor`. The momentum, or the first beta, moves against it, from `max_momentum` down
/// to `base_momentum` and up again. With `three_phase` the descent to the first rate is as long as
/// the rise, and the rest goes on to the last rate. `max_lr` replaces the optimizer's lr, also that
/// of its groups, which must have the same one; left out, the lr of the optimizer or of each group
/// is its maximum. The number of steps has no default; a step beyond it throws BadValue and is
/// undone. Source: torch.optim.lr_scheduler.OneCycleLR; Smith and Topin, arXiv:1708.07120.
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
  double base_momentum = 0.85;           ///< at the largest rate
  double max_momentum = 0.95;            ///< at the first and the last rate
  double div_factor = 25;                ///< max_lr over the first rate
  double final_div_factor = 1e4;         ///< the first rate over the last one
  bool three_phase = false;              ///< a descent to the first rate, then one to the last
  std::int64_t warmup_steps = 0;         ///< steps of a linear rise before it
};

template <std::same_as<OneCycleLR> Policy>
struct Mechanism<Policy> : detail::CyclingSchedule<OneCycleLR> {
  explicit Mechanism(OneCycleLR v) : CyclingSchedule(v) { check_values(*this); }

  void check() const {
    check_length();
    const auto& v = values;
    good(!v.max_lr || *v.max_lr > 0, "max_lr must be positive.");
    good(v.div_factor > 0 && v.final_div_factor > 0,
         "div_factor and final_div_factor must be positive.");
    good(v.pct_start >= 0 && v.pct_start <= 1, "pct_start must lie in [0, 1].");
    good(!v.three_phase || v.pct_start <= 0.5,
         "with three_phase, pct_start must not be more than 0.5: the rise and a descent as long as "
         "it come before the third phase.");
    good(rise() != 0,
         "the rise is pct_start * total_steps - 1 steps long, as in PyTorch, and that "
         "is 0 here. Write a larger pct_start; with 0 there is no rise.");
    check_momentum();
  }
  double rate(double base, std::int64_t step) const {
    return CyclingSchedule::rate(*this, base, step);
  }
  double momentum(double base, std::int64_t step) const {
    return CyclingSchedule::momentum(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    good(t < total(), [&] {
      return "step " + c10::str(t) + " of the cycle, counted from 0, is beyond its " +
             c10::str(total()) + " steps. Write the number of all calls of `step` as total_steps.";
    });
    const double top = values.max_lr.value_or(base), first = top / values.div_factor;
    return annealed(t, first, top, first / values.final_div_factor);
  }
  double momentum_after_warmup(double t) const {
    const double high = values.max_momentum;
    return annealed(t, high, values.base_momentum, high);
  }
  const char* own_rate() const {
    return values.max_lr ? "Leave max_lr out: the lr of each group is then its maximum." : nullptr;
  }
  std::string describe() const {
    const auto& v = values;
    return (v.max_lr ? "max_lr=" + c10::str(*v.max_lr) + ", " : "") +
           "total_steps=" + c10::str(total()) + ", pct_start=" + c10::str(v.pct_start) +
           ", anneal_strategy=" + (v.anneal_strategy == v.cos ? "cos" : "linear") +
           (v.cycle_momentum
                ? ", momentum=" + c10::str(v.base_momentum) + " to " + c10::str(v.max_momentum)
                : "") +
           ", div_factor=" + c10::str(v.div_factor) +
           ", final_div_factor=" + c10::str(v.final_div_factor) +
           (v.three_phase ? ", three_phase" : "") +
           ", warmup_steps=" + std::to_string(v.warmup_steps);
  }

 private:
  template <class Text>
  static void good(bool is_good, const Text& what) {
    if (is_good) return;
    if constexpr (std::is_invocable_v<const Text&>)
      detail::check_schedule("OneCycleLR", false, what().c_str());
    else detail::check_schedule("OneCycleLR", false, what);
  }
  void check_length() const {
    const auto& v = values;
    good(v.total_steps >= 0 && v.epochs >= 0 && v.steps_per_epoch >= 0,
         "total_steps, epochs and steps_per_epoch must not be negative.");
    const std::int64_t product = v.epochs * v.steps_per_epoch;
    good(v.total_steps > 0 || product > 0,
         "the number of steps is not given. Write OneCycleLR{.total_steps = steps}, or .epochs and "
         ".steps_per_epoch.");
    good(v.total_steps == 0 || product == 0 || v.total_steps == product,
         "total_steps is not epochs * steps_per_epoch. Write one of them.");
  }
  double total() const {
    return static_cast<double>(values.total_steps > 0 ? values.total_steps
                                                      : values.epochs * values.steps_per_epoch);
  }
  /// The step at which the maximum is reached, as PyTorch has it; it need not be a whole number.
  double rise() const { return values.pct_start * total() - 1; }
  double between(double from, double to, double part) const {
    if (values.anneal_strategy == values.linear) return (to - from) * part + from;
    return to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1);
  }
  double annealed(double t, double first, double top, double last) const {
    const double up = rise(), end = total() - 1;
    if (t <= up) return between(first, top, t / up);
    if (!values.three_phase) return between(top, last, (t - up) / (end - up));
    const double down = 2 * values.pct_start * total() - 2;
    if (t <= down) return between(top, first, (t - up) / (down - up));
    return between(first, last, (t - down) / (end - down));
  }
};

}  // namespace ikebana
