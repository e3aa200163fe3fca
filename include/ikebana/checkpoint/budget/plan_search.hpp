#pragma once
// The fastest plan within a budget, by dynamic programming over the units in the order of forward.
#include <ikebana/checkpoint/budget/plan.hpp>
#include <optional>

namespace ikebana::detail {

/// Lower bounds by Lagrangian relaxation: if a byte cost `price`, each unit alone would choose what
/// is cheapest. What the units up to some place would cost, less the price of the bytes that may be
/// kept there, is never above their time in a plan within the budget.
class PlanBounds {
 public:
  PlanBounds() = default;
  PlanBounds(const Costs& costs, std::int64_t budget);

  /// Of the units after the first `done`, where these keep `kept` bytes.
  std::int64_t least_time(std::size_t done, std::int64_t kept) const;

 private:
  struct Priced {
    double price;               // nanoseconds per byte
    std::vector<double> least;  // time of the units from each on, where nothing is kept before
  };
  static constexpr std::size_t max_prices = 24;

  /// What the unit adds to a plan's bytes and time. In a segment the unit before it is recomputed
  /// to its end.
  static std::int64_t time(const Costs& costs, std::size_t i, Choice choice);
  template <class F>
  static void each_choice(const Costs& costs, std::size_t i, F&& f) {
    for (const Choice choice : {Choice::Keep, Choice::Selective, Choice::Full, Choice::Joined})
      if (costs.units[i].allows(choice) && (choice != Choice::Joined || i > 0))
        f(static_cast<double>(costs.units[i].kept(choice)),
          static_cast<double>(time(costs, i, choice)));
  }
  /// The smallest peak between the first `done` units and the end of the next one, beyond what
  /// these `done` keep.
  static std::int64_t least_peak(const Costs& costs, std::size_t done);
  static double cheapest(const Costs& costs, std::size_t i, double price);
  /// Those at which a unit changes its choice, thinned out.
  static std::vector<double> prices(const Costs& costs);

  std::vector<Priced> all_;
};

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
