#pragma once
// The fastest plan within a budget, by dynamic programming over the units in the order of forward.
#include <ikebana/checkpoint/budget/plan_bounds.hpp>
#include <optional>

namespace ikebana::detail {

/// Finds plans. After the first units a plan is described by two numbers, the bytes that it keeps
/// and its time: of those that need more of both than another, none can be part of the best. Which
/// bytes may be kept depends on earlier units alone, so this is exact. Costs the square of the
/// number of units, times how many such pairs there are.
class PlanSearch {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  PlanSearch(const Costs& costs, std::int64_t budget, const PlanBounds& bounds,
             std::int64_t slowest, std::size_t states);

  /// The fastest; of equally fast ones that which keeps least. None within the budget: no value.
  std::optional<Plan> best() const;

 private:
  /// A plan of the first units, as the last step that led to it.
  struct State {
    std::int64_t kept = 0, time = 0;
    std::size_t units = 0, index = 0;  // the state before: of how many units, and which
    Choice choice = Choice::Keep;      // of the first unit that was added
  };

  /// One unit, or several in a segment, that follow those of a plan.
  struct Addition {
    Choice choice;
    std::int64_t peak, kept, time;
  };

  /// Adds the unit, or the segments that begin with it, to all plans of the `done` before it.
  void extend(std::size_t done);
  /// Of two units and more.
  std::vector<Addition> segments_from(std::size_t first) const;
  /// Returns false where it is too slow: a longer segment is then, too, since no unit is cheaper
  /// than its bound.
  bool add(std::size_t from, std::size_t index, std::size_t to, const Addition& added);
  /// Leaves those that no other one beats, ordered by bytes; at most `max_states_` of them.
  void select(std::size_t done);
  /// Leaves the one that keeps least, with which most is possible, and the most promising others.
  void select_promising(std::vector<State>& states, std::size_t done) const;

  const Costs& costs_;
  std::int64_t budget_;
  const PlanBounds& bounds_;
  std::int64_t slowest_;
  std::size_t max_states_;
  std::vector<std::vector<State>> states_;  // by number of units
};

/// The fastest plan whose peak is within the budget; no value where there is none.
std::optional<Plan> best_plan(const Costs& costs, std::int64_t budget);

/// The smallest budget within which there is a plan. Bisects: the plan that keeps least is enough
/// to know whether there is one.
std::int64_t smallest_budget(const Costs& costs);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/plan_search.ipp>
#endif
