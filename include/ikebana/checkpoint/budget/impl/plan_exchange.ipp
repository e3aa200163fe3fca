#pragma once
#include <ikebana/checkpoint/budget/plan_exchange.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RankCosts RankCosts::of(const std::string& text) {
  std::array<std::int64_t, 1> numbers{};
  Costs costs = from_bytes(text, numbers);
  return {std::move(costs), numbers[0]};
}

IKEBANA_INLINE void RankCosts::add(const RankCosts& other) {
  budget = std::min(budget, other.budget);
  costs.fixed = std::max(costs.fixed, other.costs.fixed);
  for (std::size_t i = 0; i < other.costs.size(); ++i) {
    if (i == costs.size()) costs.units.push_back(other.costs.units[i]);
    else add(costs.units[i], other.costs.units[i]);
  }
}

IKEBANA_INLINE void RankCosts::add(UnitCosts& unit, const UnitCosts& other) {
  for (auto bytes : {&UnitCosts::forward, &UnitCosts::forward_keep, &UnitCosts::forward_selective,
                     &UnitCosts::after_forward, &UnitCosts::begin, &UnitCosts::rise,
                     &UnitCosts::rise_selective, &UnitCosts::rise_whole, &UnitCosts::backward,
                     &UnitCosts::keep, &UnitCosts::selective, &UnitCosts::result})
    unit.*bytes = std::max(unit.*bytes, other.*bytes);
  for (auto time : {&UnitCosts::time, &UnitCosts::time_selective, &UnitCosts::time_rest})
    unit.*time += other.*time;
  unit.input = std::min(unit.input, other.input);
  unit.unsaved = std::min(unit.unsaved, other.unsaved);
  unit.is_measured = unit.is_measured && other.is_measured && unit.unit == other.unit;
  unit.joins = unit.joins && other.joins && unit.unit == other.unit;
}

IKEBANA_INLINE RankCosts of_all_ranks(const Ranks& ranks, const RankCosts& own) {
  const auto all = exchange_in(ranks.data(), "a plan of Checkpoint<Budget>", own.text());
  RankCosts sum = RankCosts::of(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) sum.add(RankCosts::of(all[rank]));
  return sum;
}

}  // namespace ikebana::detail
