#pragma once
// What schedules share. A schedule is a closed form of the step, with nothing to save and no order
// of calls, where it can be: all but ReduceLROnPlateau are.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

inline void check_schedule(const char* name, bool good, const char* what) {
  if (!good) throw BadValue(std::string(name) + ": " + what);
}

/// Linear warm-up in front of a schedule: step s of w warm-up steps runs at (s + 1) / w of the base
/// rate; the schedule's own step 0 comes after it.
template <class Policy>
struct Warmed : Hooks {
  Policy values;
  explicit Warmed(Policy v) : values(std::move(v)) {
    check_schedule("schedule", values.warmup_steps >= 0,
                   "warmup_steps is negative. Give 0 or more.");
  }
  template <class Schedule>
  static double rate(const Schedule& schedule, double base, std::int64_t step) {
    std::int64_t warmup = schedule.values.warmup_steps;
    if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
    return schedule.after_warmup(base, static_cast<double>(step - warmup));
  }
};

}  // namespace ikebana::detail
