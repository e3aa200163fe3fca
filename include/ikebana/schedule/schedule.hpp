#pragma once
// Defines the base of schedules. All except ReduceLROnPlateau are closed forms of the step, so they
// have no state to save and do not depend on the order of calls.
#include <ikebana/hooks.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Throws BadValue("name: what") if `good` is false.
void check_schedule(const char* name, bool good, const char* what);

/// Writes `{60, 80}`.
std::string braced(const std::vector<std::int64_t>& numbers);

/// The base of schedules, with a linear warm-up: step s of w warm-up steps has (s + 1) / w of the
/// base rate; the schedule's own step 0 follows. Schedules implement `after_warmup(base, step)` and
/// `check()`, which is called for every rate, since values may change between steps.
template <class Policy>
struct WarmupSchedule : ScheduleHooks {
  using carries_out = Policy;
  Policy values;
  explicit WarmupSchedule(Policy v) : values(std::move(v)) {}
  template <class Schedule>
  static void check_values(const Schedule& schedule) {
    if (schedule.values.warmup_steps < 0)
      throw BadValue("schedule: warmup_steps is " + std::to_string(schedule.values.warmup_steps) +
                     "; it must be 0 or more.");
    schedule.check();
  }
  template <class Schedule>
  static double rate(const Schedule& schedule, double base, std::int64_t step) {
    const std::int64_t warmup = schedule.values.warmup_steps;
    check_values(schedule);
    if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
    return schedule.after_warmup(base, static_cast<double>(step - warmup));
  }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/schedule.ipp>
#endif
