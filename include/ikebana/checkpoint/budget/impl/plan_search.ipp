#pragma once
#include <algorithm>
#include <cstddef>
#include <ikebana/checkpoint/budget/plan_search.hpp>
#include <ikebana/detail/form.hpp>
#include <set>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE PlanBounds::PlanBounds(const Costs& costs, std::int64_t budget) {
  const auto limit = static_cast<double>(budget);
  for (const double price : prices(costs)) {
    Priced priced{price, std::vector<double>(costs.size() + 1)};
    double passed = 0;  // times of the units from each on
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
  std::int64_t next = std::max(unit.forward, unit.backward);  // the memory of a unit within a
                                                              // segment, or before one
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

IKEBANA_INLINE PlanSearch::PlanSearch(const Costs& costs, std::int64_t budget,
                                      const PlanBounds& bounds, std::int64_t slowest,
                                      std::size_t states)
    : costs_(costs), budget_(budget), bounds_(bounds), slowest_(slowest), max_states_(states) {
  states_.resize(costs.size() + 1);
  if (costs.fixed <= budget) states_[0].push_back({});
  for (std::size_t done = 0; done < costs.size(); ++done) {
    select(done);
    extend(done);
  }
  select(costs.size());
}

IKEBANA_INLINE std::optional<Plan> PlanSearch::best() const {
  if (states_.back().empty()) return {};
  Plan plan(costs_.size());
  std::size_t done = costs_.size(), i = states_.back().size() - 1;
  while (done > 0) {
    const State& state = states_[done][i];
    std::fill(plan.begin() + static_cast<std::ptrdiff_t>(state.units),
              plan.begin() + static_cast<std::ptrdiff_t>(done), Choice::Joined);
    plan[state.units] = state.choice;
    done = state.units, i = state.index;
  }
  return plan;
}

IKEBANA_INLINE void PlanSearch::extend(std::size_t done) {
  const UnitCosts& unit = costs_.units[done];
  for (const Choice choice : {Choice::Keep, Choice::Full, Choice::Selective})
    if (unit.allows(choice))
      for (std::size_t i = 0; i < states_[done].size(); ++i)
        add(done, i, done + 1,
            {choice, unit.peak(choice), unit.kept(choice), unit.recompute(choice)});
  const std::vector<Addition> segments = segments_from(done);
  for (std::size_t i = 0; i < states_[done].size(); ++i)
    for (std::size_t n = 0; n < segments.size(); ++n)
      if (!add(done, i, done + n + 2, segments[n])) break;
}

IKEBANA_INLINE std::vector<PlanSearch::Addition> PlanSearch::segments_from(
    std::size_t first) const {
  std::vector<Addition> all;
  if (!costs_.units[first].is_measured) return all;
  Segment segment(costs_, first);
  while (segment.last() + 1 < costs_.size() &&
         costs_.units[segment.last() + 1].allows(Choice::Joined)) {
    segment.extend();
    all.push_back({Choice::Full, segment.peak(), segment.kept(), segment.time()});
  }
  return all;
}

IKEBANA_INLINE bool PlanSearch::add(std::size_t from, std::size_t index, std::size_t to,
                                    const Addition& added) {
  const State& before = states_[from][index];
  const State state{before.kept + added.kept, before.time + added.time, from, index, added.choice};
  if (state.time + bounds_.least_time(to, state.kept) > slowest_) return false;
  const std::int64_t after = added.kept + costs_.units[to - 1].after_forward;
  if (before.kept + std::max(added.peak, after) <= budget_) states_[to].push_back(state);
  return true;
}

IKEBANA_INLINE void PlanSearch::select(std::size_t done) {
  std::vector<State>& states = states_[done];
  std::stable_sort(states.begin(), states.end(), [](const State& a, const State& b) {
    return a.kept != b.kept ? a.kept < b.kept : a.time < b.time;
  });
  std::size_t count = 0;
  for (const State& state : states)
    if (count == 0 || state.time < states[count - 1].time) states[count++] = state;
  states.resize(count);
  if (count > max_states_) select_promising(states, done);
}

IKEBANA_INLINE void PlanSearch::select_promising(std::vector<State>& states,
                                                 std::size_t done) const {
  const auto most = states.begin() + static_cast<std::ptrdiff_t>(max_states_);
  auto least = [&](const State& state) {
    return state.time + bounds_.least_time(done, state.kept);
  };
  std::partial_sort(states.begin() + 1, most, states.end(), [&](const State& a, const State& b) {
    const auto one = least(a), other = least(b);
    return one != other ? one < other : a.kept < b.kept;
  });
  states.erase(most, states.end());
  std::sort(states.begin(), states.end(),
            [](const State& a, const State& b) { return a.kept < b.kept; });
}

IKEBANA_INLINE std::optional<Plan> best_plan(const Costs& costs, std::int64_t budget) {
  constexpr std::int64_t any_time = std::numeric_limits<std::int64_t>::max() / 2;
  constexpr std::size_t few = 24;
  const PlanBounds bounds(costs, budget);
  const auto good = PlanSearch(costs, budget, bounds, any_time, few).best();
  if (!good) return {};
  const std::int64_t time = predict(costs, *good).time;
  return PlanSearch(costs, budget, bounds, time, PlanSearch::unlimited).best();
}

IKEBANA_INLINE std::int64_t smallest_budget(const Costs& costs) {
  constexpr std::int64_t any_time = std::numeric_limits<std::int64_t>::max() / 2;
  const PlanBounds none;
  auto fits = [&](std::int64_t budget) {
    return PlanSearch(costs, budget, none, any_time, 1).best().has_value();
  };
  std::int64_t high = predict(costs, Plan(costs.size(), Choice::Full)).peak;
  std::int64_t low = std::min<std::int64_t>(0, high) - 1;
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace ikebana::detail
