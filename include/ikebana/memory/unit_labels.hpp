#pragma once
// The policy LabelUnits: gives the records of a step the names of units.
#include <concepts>
#include <ikebana/hooks.hpp>
#include <utility>

namespace ikebana {

/// Each unit of the model runs within a RECORD_USER_SCOPE of its name. An InPlaceChecker then says
/// in which unit a tensor was saved, and LibTorch's profiler in which unit an operator ran. Not in
/// `ikebana.hpp`. Costs some nanoseconds per unit while nothing records.
struct LabelUnits {
  /// LabelUnits sets the axis observe.
  using axis = axis::observe;
};

template <>
struct Mechanism<LabelUnits> : ObserveHooks {
  using carries_out = LabelUnits;
  LabelUnits values;
  explicit Mechanism(LabelUnits v) : values(v) {}

  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    at::RecordFunction scope(at::RecordScope::USER_SCOPE);
    if (scope.isActive()) scope.before(unit.name);
    return next(std::forward<Args>(args)...);
  }
};

}  // namespace ikebana
