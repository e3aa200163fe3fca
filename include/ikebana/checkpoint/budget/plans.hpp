#pragma once
// The plans of one trainer: for which batches, and which of them a step uses.
#include <ikebana/checkpoint/budget/plan_exchange.hpp>
#include <ikebana/checkpoint/budget/plan_search.hpp>
#include <ikebana/checkpoint/budget/planned_batches.hpp>
#include <optional>

namespace ikebana::detail {

/// What a budget limits: the peak of a step, or what is kept from forward to backward alone.
enum class Budgeted { Peak, Activations };

/// `bytes` is the budget of a step that begins with `level` bytes in use.
struct BudgetNow {
  Budgeted what;
  std::int64_t bytes, level;
};

/// Plans are remembered by the sizes of the microbatches that were measured; the latest of them.
class Plans {
 public:
  static constexpr std::size_t max_plans = 16;

  /// Three bits for each plan: it holds for these sizes and this budget, it would if it were made
  /// anew, and it was measured with these very sizes.
  std::uint64_t usable(const StepSizes& sizes, const BudgetNow& now) const;
  /// Chooses one of them, on all ranks the same; makes it anew where none holds as it is. False
  /// where the batches have to be measured. Throws OutOfMemory where they were, and no plan is
  /// within the budget.
  template <class Ranks>
  bool choose(std::uint64_t usable, const BudgetNow& now, const Ranks& ranks) {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if ((usable & bit(i, holds)) != 0) return present_ = i, true;
    std::optional<std::size_t> exact;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if ((usable & bit(i, covers)) == 0) continue;
      if (make(all_[i], now, ranks)) return present_ = i, true;
      if ((usable & bit(i, is_exact)) != 0) exact = i;
    }
    if (exact) refuse(now, smallest_budget(all_[*exact].planned));
    return false;
  }
  void add(PlannedBatches measured);
  bool empty() const { return all_.empty(); }
  PlannedBatches& present() { return all_[present_]; }
  const PlannedBatches& present() const { return all_[present_]; }

  /// The costs of these batches where a step begins with `level` bytes in use.
  static Costs costs_at(const PlannedBatches& one, const BudgetNow& now);

 private:
  static constexpr std::size_t holds = 0, covers = max_plans, is_exact = 2 * max_plans;
  static std::uint64_t bit(std::size_t plan, std::size_t kind);
  /// Of the plan that was made before, where more or less is in use than then.
  static std::int64_t peak(const PlannedBatches& one, const BudgetNow& now);
  template <class Ranks>
  static bool make(PlannedBatches& one, const BudgetNow& now, const Ranks& ranks) {
    RankCosts all = of_all_ranks(ranks, {costs_at(one, now), now.bytes});
    one.planned = std::move(all.costs);
    const auto plan = best_plan(one.planned, all.budget);
    one.has_plan = plan.has_value();
    if (!plan) return false;
    if (*plan != one.plan) one.seconds.clear();
    one.plan = *plan;
    one.predicted = predict(one.planned, one.plan);
    one.budget = now.bytes, one.level = now.level;
    return true;
  }
  [[noreturn]] static void refuse(const BudgetNow& now, std::int64_t smallest);

  std::vector<PlannedBatches> all_;
  std::size_t present_ = 0;
};

/// `Keep 0-3, Selective 4, Full 5, segment 6-8`: units by their place in forward.
std::string plan_text(const Plan& plan);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/plans.ipp>
#endif
