#pragma once
// What was measured as a text, for other processes, and one plan on all ranks: what each of them
// has measured becomes one list of costs.
#include <array>
#include <cstring>
#include <ikebana/checkpoint/budget/plan.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <string>

namespace ikebana::detail {

/// Costs and some numbers, as the bytes that they have here.
template <std::size_t count>
std::string to_bytes(std::array<std::int64_t, count> numbers, const Costs& costs) {
  std::string bytes(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  bytes.append(reinterpret_cast<const char*>(&costs.fixed), sizeof costs.fixed);
  return bytes.append(reinterpret_cast<const char*>(costs.units.data()),
                      costs.size() * sizeof(UnitCosts));
}
template <std::size_t count>
Costs from_bytes(const std::string& bytes, std::array<std::int64_t, count>& numbers) {
  Costs costs;
  const char* from = bytes.data();
  std::memcpy(numbers.data(), from, sizeof numbers), from += sizeof numbers;
  std::memcpy(&costs.fixed, from, sizeof costs.fixed), from += sizeof costs.fixed;
  const std::size_t left = bytes.size() - sizeof numbers - sizeof costs.fixed;
  costs.units.resize(left / sizeof(UnitCosts));
  if (!costs.units.empty()) std::memcpy(costs.units.data(), from, left);
  return costs;
}

/// What a rank knows when a plan is made.
struct RankCosts {
  Costs costs;
  std::int64_t budget = 0;

  std::string text() const { return to_bytes(std::array{budget}, costs); }
  static RankCosts of(const std::string& text);

  /// Adds what another rank knows: of bytes the larger, of times the sum, of budgets the smaller. A
  /// unit that ranks run at different places is not planned.
  void add(const RankCosts& other);

 private:
  static void add(UnitCosts& unit, const UnitCosts& other);
};

/// The same on all ranks.
inline RankCosts of_all_ranks(const OneRank&, RankCosts own) { return own; }
RankCosts of_all_ranks(const Ranks& ranks, const RankCosts& own);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/plan_exchange.ipp>
#endif
