#pragma once
#include <ikebana/checkpoint/budget/plans.hpp>
#include <ikebana/detail/bytes.hpp>
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

IKEBANA_INLINE bool BatchSizes::cover(const BatchSizes& other) const {
  if (other.is_empty_) return true;
  if (is_empty_ || differ_ || other.differ_ || all_.size() != other.all_.size()) return false;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].size() != other.all_[i].size()) return false;
    for (std::size_t d = 0; d < all_[i].size(); ++d)
      if (other.all_[i][d] > all_[i][d]) return false;
  }
  return true;
}

IKEBANA_INLINE bool BatchSizes::raise(const std::vector<c10::DimVector>& sizes) {
  if (sizes.size() != all_.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].size() != all_[i].size()) return false;
    for (std::size_t d = 0; d < sizes[i].size(); ++d)
      all_[i][d] = std::max(all_[i][d], sizes[i][d]);
  }
  return true;
}

IKEBANA_INLINE bool StepSizes::cover(const StepSizes& other) const {
  return (first.cover(other.first) || others.cover(other.first)) && others.cover(other.others);
}

IKEBANA_INLINE void PlannedBatches::note_seconds(double one) {
  constexpr std::size_t enough = 9;
  if (seconds.size() == enough) seconds.erase(seconds.begin());
  seconds.push_back(one);
}

IKEBANA_INLINE std::uint64_t Plans::usable(const StepSizes& sizes, const BudgetNow& now) const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const PlannedBatches& one = all_[i];
    if (!one.sizes.cover(sizes)) continue;
    bits |= bit(i, covers);
    if (one.has_plan && one.budget == now.bytes && peak(one, now) <= now.bytes)
      bits |= bit(i, holds);
    if (sizes.cover(one.sizes)) bits |= bit(i, is_exact);
  }
  return bits;
}

IKEBANA_INLINE void Plans::add(PlannedBatches measured) {
  if (all_.size() == max_plans) all_.erase(all_.begin());
  all_.push_back(std::move(measured));
  present_ = all_.size() - 1;
}

IKEBANA_INLINE Costs Plans::costs_at(const PlannedBatches& one, const BudgetNow& now) {
  if (now.what == Budgeted::Activations) return kept_alone(one.costs, one.inputs);
  Costs costs = one.costs;
  costs.fixed += now.level;
  for (UnitCosts& unit : costs.units)
    for (auto peak : {&UnitCosts::forward, &UnitCosts::forward_keep, &UnitCosts::forward_selective,
                      &UnitCosts::after_forward, &UnitCosts::begin, &UnitCosts::backward})
      unit.*peak += now.level;
  return costs;
}

IKEBANA_INLINE std::uint64_t Plans::bit(std::size_t plan, std::size_t kind) {
  return std::uint64_t{1} << (kind + plan);
}

IKEBANA_INLINE std::int64_t Plans::peak(const PlannedBatches& one, const BudgetNow& now) {
  return one.predicted.peak +
         (now.what == Budgeted::Peak ? std::max<std::int64_t>(0, now.level - one.level) : 0);
}

IKEBANA_INLINE void Plans::refuse(const BudgetNow& now, std::int64_t smallest) {
  const bool is_peak = now.what == Budgeted::Peak;
  throw OutOfMemory(std::string(is_peak ? "Checkpoint<Budget>" : "Checkpoint<ActivationBudget>") +
                    ": limit is " + bytes_text(now.bytes) +
                    ", and a step with this batch needs at least " + bytes_text(smallest) +
                    ", in the best plan. Set limit to that, or use more microbatches" +
                    (is_peak ? " or more ranks of Shard<FSDP>." : "."));
}

IKEBANA_INLINE std::string plan_text(const Plan& plan) {
  static const char* const names[] = {"Keep", "Selective", "Full", "segment"};
  std::string text;
  for (std::size_t i = 0, end; i < plan.size(); i = end) {
    const bool is_segment = i + 1 < plan.size() && plan[i + 1] == Choice::Joined;
    auto continues = [&](std::size_t k) {
      if (k == plan.size()) return false;
      if (is_segment) return plan[k] == Choice::Joined;
      const bool begins = k + 1 < plan.size() && plan[k + 1] == Choice::Joined;
      return plan[k] == plan[i] && !begins;
    };
    for (end = i + 1; continues(end);) ++end;
    text += (i == 0 ? "" : ", ") + std::string(names[is_segment ? 3 : static_cast<int>(plan[i])]) +
            " " + std::to_string(i) + (end > i + 1 ? "-" + std::to_string(end - 1) : "");
  }
  return text;
}

}  // namespace ikebana::detail
