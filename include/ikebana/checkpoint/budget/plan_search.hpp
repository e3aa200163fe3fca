#pragma once
// Finds the fastest plan within a budget, by dynamic programming over the units in the order of
// forward.
#include <ikebana/checkpoint/budget/plan.hpp>
#include <optional>

namespace ikebana::detail {

/// Lower bounds of a plan's time, by Lagrangian relaxation: if a byte cost `price`, each unit alone
/// would choose what is cheapest. The cost of the units up to some place, less the price of the
/// bytes that may be kept there, is never above their time in a plan within the budget. The search
/// drops plans that cannot become the fastest one.
class PlanBounds {
 public:
  PlanBounds() = default;
  PlanBounds(const Costs& costs, std::int64_t budget);

  /// Returns the least time of the units after the first `done`, if these keep `kept` bytes.
  std::int64_t least_time(std::size_t done, std::int64_t kept) const;

 private:
  struct Priced {
    double price;               // nanoseconds per byte
    std::vector<double> least;  // time of the units from each on, if nothing is kept before
  };
  static constexpr std::size_t max_prices = 24;

  /// Returns the time that the unit adds to a plan. In a segment the unit before it is recomputed
  /// to its end.
  static std::int64_t time(const Costs& costs, std::size_t i, Choice choice);
  template <class F>
  static void each_choice(const Costs& costs, std::size_t i, F&& f) {
    for (const Choice choice : {Choice::Keep, Choice::Selective, Choice::Full, Choice::Joined})
      if (costs.units[i].allows(choice) && (choice != Choice::Joined || i > 0))
        f(static_cast<double>(costs.units[i].kept(choice)),
          static_cast<double>(time(costs, i, choice)));
  }
  /// Returns the smallest peak between the first `done` units and the end of the next one, beyond
  /// what these `done` keep.
  static std::int64_t least_peak(const Costs& costs, std::size_t done);
  static double cheapest(const Costs& costs, std::size_t i, double price);
  /// Returns the prices at which a unit changes its choice, at most `max_prices` of them.
  static std::vector<double> prices(const Costs& costs);

  std::vector<Priced> all_;
};

/// Finds plans. After the first units a plan is described by two numbers, the bytes that it keeps
/// and its time. A plan that needs more of both than another one cannot be part of the best. The
/// bytes that may be kept depend on earlier units alone, so this is exact. Costs the square of the
/// number of units, times the number of such pairs.
class PlanSearch {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  PlanSearch(const Costs& costs, std::int64_t budget, const PlanBounds& bounds,
             std::int64_t slowest, std::size_t states);

  /// Returns the fastest plan, and of equally fast ones the one that keeps least. Returns no value
  /// if no plan is within the budget.
  std::optional<Plan> best() const;

 private:
  /// A plan of the first units, as the last step that led to it.
  struct State {
    std::int64_t kept = 0, time = 0;
    std::size_t units = 0, index = 0;  // the state before: how many units it has, and its index
    Choice choice = Choice::Keep;      // the choice for the first unit that was added
  };

  /// One unit, or several in a segment, that follow the units of a plan.
  struct Addition {
    Choice choice;
    std::int64_t peak, kept, time;
  };

  /// Adds the unit, or the segments that begin with it, to all plans of the `done` before it.
  void extend(std::size_t done);
  /// Returns the segments of two units and more that begin with `first`.
  std::vector<Addition> segments_from(std::size_t first) const;
  /// Returns false if the plan is too slow. A longer segment is then too slow as well, since no
  /// unit is cheaper than its bound.
  bool add(std::size_t from, std::size_t index, std::size_t to, const Addition& added);
  /// Leaves the states that no other one beats, ordered by bytes, at most `max_states_` of them.
  void select(std::size_t done);
  /// Leaves the state that keeps least, from which most plans are possible, and the most promising
  /// others.
  void select_promising(std::vector<State>& states, std::size_t done) const;

  const Costs& costs_;
  std::int64_t budget_;
  const PlanBounds& bounds_;
  std::int64_t slowest_;
  std::size_t max_states_;
  std::vector<std::vector<State>> states_;  // the states, by the number of units
};

/// Returns the fastest plan whose peak is within the budget, or no value.
std::optional<Plan> best_plan(const Costs& costs, std::int64_t budget);

/// Returns the smallest budget within which there is a plan. Bisects: the plan that keeps least
/// shows whether there is one.
std::int64_t smallest_budget(const Costs& costs);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/plan_search.ipp>
#endif
