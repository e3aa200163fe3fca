#pragma once
#include <ikebana/checkpoint/budget/plans.hpp>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

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
                    ": bytes is " + bytes_text(now.bytes) +
                    ", and a step with this batch needs at least " + bytes_text(smallest) +
                    ", in the best plan. Set bytes to that, or use more microbatches" +
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
