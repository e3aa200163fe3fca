#pragma once
// How fast the rest of a plan can be at best, which lets the search drop plans that cannot become
// the fastest one.
#include <ikebana/checkpoint/budget/plan.hpp>

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

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/plan_bounds.ipp>
#endif
