#pragma once
// One plan on all ranks: what each of them has measured becomes one list of costs.
#include <cstring>
#include <ikebana/checkpoint/plan.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <string>

namespace ikebana::detail {

/// What a rank knows when a plan is made.
struct RankCosts {
  Costs costs;
  std::int64_t budget = 0;

  std::string text() const {
    std::string bytes(sizeof budget + sizeof costs.fixed, '\0');
    std::memcpy(bytes.data(), &budget, sizeof budget);
    std::memcpy(bytes.data() + sizeof budget, &costs.fixed, sizeof costs.fixed);
    const auto* units = reinterpret_cast<const char*>(costs.units.data());
    return bytes.append(units, costs.size() * sizeof(UnitCosts));
  }
  static RankCosts of(const std::string& text) {
    RankCosts one;
    const std::size_t begin = sizeof one.budget + sizeof one.costs.fixed;
    std::memcpy(&one.budget, text.data(), sizeof one.budget);
    std::memcpy(&one.costs.fixed, text.data() + sizeof one.budget, sizeof one.costs.fixed);
    one.costs.units.resize((text.size() - begin) / sizeof(UnitCosts));
    if (!one.costs.units.empty())
      std::memcpy(one.costs.units.data(), text.data() + begin, text.size() - begin);
    return one;
  }

  /// Adds what another rank knows: of bytes the larger, of times the sum, of budgets the smaller. A
  /// unit that ranks run at different places is not planned.
  void add(const RankCosts& other) {
    budget = std::min(budget, other.budget);
    costs.fixed = std::max(costs.fixed, other.costs.fixed);
    for (std::size_t i = 0; i < other.costs.size(); ++i) {
      if (i == costs.size()) costs.units.push_back(other.costs.units[i]);
      else add(costs.units[i], other.costs.units[i]);
    }
  }

 private:
  static void add(UnitCosts& unit, const UnitCosts& other) {
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
};

/// The same on all ranks.
inline RankCosts of_all_ranks(const OneRank&, RankCosts own) { return own; }
inline RankCosts of_all_ranks(const Ranks& ranks, const RankCosts& own) {
  const auto all = exchange_in(ranks.data(), "a plan of Checkpoint<Budget>", own.text());
  RankCosts sum = RankCosts::of(all[0]);
  for (std::size_t rank = 1; rank < all.size(); ++rank) sum.add(RankCosts::of(all[rank]));
  return sum;
}

}  // namespace ikebana::detail
