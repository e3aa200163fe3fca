#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/one_cycle.hpp>
#include <numbers>

namespace ikebana {

IKEBANA_INLINE void Mechanism<OneCycleLR>::check() const {
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

IKEBANA_INLINE double Mechanism<OneCycleLR>::rate(double base, std::int64_t step) const {
  return CyclingSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<OneCycleLR>::momentum(double base, std::int64_t step) const {
  return CyclingSchedule::momentum(*this, base, step);
}

IKEBANA_INLINE double Mechanism<OneCycleLR>::after_warmup(double base, double t) const {
  good(t < total(), [&] {
    return "step " + c10::str(t) + " of the cycle, counted from 0, is beyond its " +
           c10::str(total()) + " steps. Write the number of all calls of `step` as total_steps.";
  });
  const double top = values.max_lr.value_or(base), first = top / values.div_factor;
  return annealed(t, first, top, first / values.final_div_factor);
}

IKEBANA_INLINE double Mechanism<OneCycleLR>::momentum_after_warmup(double t) const {
  const double high = values.max_momentum;
  return annealed(t, high, values.base_momentum, high);
}

IKEBANA_INLINE const char* Mechanism<OneCycleLR>::own_rate() const {
  return values.max_lr ? "Leave max_lr out: the lr of each group is then its maximum." : nullptr;
}

IKEBANA_INLINE std::string Mechanism<OneCycleLR>::describe() const {
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

IKEBANA_INLINE void Mechanism<OneCycleLR>::check_length() const {
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

IKEBANA_INLINE double Mechanism<OneCycleLR>::total() const {
  return static_cast<double>(values.total_steps > 0 ? values.total_steps
                                                    : values.epochs * values.steps_per_epoch);
}

IKEBANA_INLINE double Mechanism<OneCycleLR>::between(double from, double to, double part) const {
  if (values.anneal_strategy == values.linear) return (to - from) * part + from;
  return to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1);
}

IKEBANA_INLINE double Mechanism<OneCycleLR>::annealed(double t, double first, double top,
                                                      double last) const {
  const double up = rise(), end = total() - 1;
  if (t <= up) return between(first, top, t / up);
  if (!values.three_phase) return between(top, last, (t - up) / (end - up));
  const double down = 2 * values.pct_start * total() - 2;
  if (t <= down) return between(top, first, (t - up) / (down - up));
  return between(first, last, (t - down) / (end - down));
}

}  // namespace ikebana
