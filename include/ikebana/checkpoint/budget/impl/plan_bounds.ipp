#pragma once
#include <algorithm>
#include <cstddef>
#include <ikebana/checkpoint/budget/plan_bounds.hpp>
#include <ikebana/detail/form.hpp>
#include <set>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE PlanBounds::PlanBounds(const Costs& costs, std::int64_t budget) {
  const auto limit = static_cast<double>(budget);
  for (const double price : prices(costs)) {
    Priced priced{price, std::vector<double>(costs.size() + 1)};
    double passed = 0;  // by the units from each on
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t done = costs.size() + 1; done-- > 0;) {
      if (done < costs.size()) passed += cheapest(costs, done, price);
      const double may_keep = limit - static_cast<double>(least_peak(costs, done));
      least = std::min(least, passed + price * may_keep);
      priced.least[done] = passed - least;
    }
    all_.push_back(std::move(priced));
  }
}

IKEBANA_INLINE std::int64_t PlanBounds::least_time(std::size_t done, std::int64_t kept) const {
  double least = 0;
  for (const Priced& one : all_)
    least = std::max(least, one.least[done] + one.price * static_cast<double>(kept));
  return static_cast<std::int64_t>(least * (1 - 1e-9)) - 1;  // rounding must not raise it
}

IKEBANA_INLINE std::int64_t PlanBounds::time(const Costs& costs, std::size_t i, Choice choice) {
  const std::int64_t rest = choice == Choice::Joined ? costs.units[i - 1].time_rest : 0;
  return costs.units[i].recompute(choice) + rest;
}

IKEBANA_INLINE std::int64_t PlanBounds::least_peak(const Costs& costs, std::size_t done) {
  std::int64_t peak = done == 0 ? costs.fixed : costs.units[done - 1].after_forward;
  if (done == costs.size()) return peak;
  const UnitCosts& unit = costs.units[done];
  std::int64_t next = std::max(unit.forward, unit.backward);  // within a segment, or before one
  if (done > 0 && unit.allows(Choice::Joined)) {
    const UnitCosts& before = costs.units[done - 1];
    next = std::max(unit.forward,
                    unit.backward - unit.input + before.keep + before.result - unit.unsaved);
    next = std::min(next, std::max(unit.forward, unit.backward));
  }
  for (const Choice choice : {Choice::Keep, Choice::Selective})
    if (unit.allows(choice)) next = std::min(next, unit.peak(choice));
  return std::max(peak, next);
}

IKEBANA_INLINE double PlanBounds::cheapest(const Costs& costs, std::size_t i, double price) {
  double least = std::numeric_limits<double>::infinity();
  each_choice(costs, i,
              [&](double kept, double time) { least = std::min(least, time + price * kept); });
  return least;
}

IKEBANA_INLINE std::vector<double> PlanBounds::prices(const Costs& costs) {
  std::set<double> all;
  for (std::size_t i = 0; i < costs.size(); ++i)
    each_choice(costs, i, [&](double kept, double time) {
      each_choice(costs, i, [&](double other_kept, double other_time) {
        if (other_kept > kept && other_time < time)
          all.insert((time - other_time) / (other_kept - kept));
      });
    });
  const std::vector<double> sorted(all.begin(), all.end());
  if (sorted.size() <= max_prices) return sorted;
  std::vector<double> some;
  for (std::size_t i = 0; i < max_prices; ++i)
    some.push_back(sorted[i * (sorted.size() - 1) / (max_prices - 1)]);
  return some;
}

}  // namespace ikebana::detail
