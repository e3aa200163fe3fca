#pragma once
// The plans of one trainer: for which batches, and which of them a step uses.
#include <ikebana/checkpoint/plan_exchange.hpp>
#include <ikebana/checkpoint/plan_search.hpp>
#include <ikebana/checkpoint/planned_batches.hpp>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/error.hpp>
#include <optional>

namespace ikebana::detail {

/// What a budget limits: the peak of a step, or what is kept from forward to backward alone.
enum class Budgeted { Peak, Activations };

/// `bytes` is the budget of a step that begins with `level` bytes in use.
struct BudgetNow {
  Budgeted what;
  std::int64_t bytes, level;
};

/// Plans are remembered by the sizes of the microbatches that were measured; the latest of them. A
/// template for the same reason as Frame.
template <class = void>
class Plans {
 public:
  static constexpr std::size_t max_plans = 16;

  /// Three bits for each plan: it holds for these sizes and this budget, it would if it were made
  /// anew, and it was measured with these very sizes.
  std::uint64_t usable(const StepSizes& sizes, const BudgetNow& now) const {
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
  void add(PlannedBatches measured) {
    if (all_.size() == max_plans) all_.erase(all_.begin());
    all_.push_back(std::move(measured));
    present_ = all_.size() - 1;
  }
  bool empty() const { return all_.empty(); }
  PlannedBatches& present() { return all_[present_]; }
  const PlannedBatches& present() const { return all_[present_]; }

  /// The costs of these batches where a step begins with `level` bytes in use.
  static Costs costs_at(const PlannedBatches& one, const BudgetNow& now) {
    if (now.what == Budgeted::Activations) return kept_alone(one.costs, one.inputs);
    Costs costs = one.costs;
    costs.fixed += now.level;
    for (UnitCosts& unit : costs.units)
      for (auto peak :
           {&UnitCosts::forward, &UnitCosts::forward_keep, &UnitCosts::forward_selective,
            &UnitCosts::after_forward, &UnitCosts::begin, &UnitCosts::backward})
        unit.*peak += now.level;
    return costs;
  }

 private:
  static constexpr std::size_t holds = 0, covers = max_plans, is_exact = 2 * max_plans;
  static std::uint64_t bit(std::size_t plan, std::size_t kind) {
    return std::uint64_t{1} << (kind + plan);
  }
  /// Of the plan that was made before, where more or less is in use than then.
  static std::int64_t peak(const PlannedBatches& one, const BudgetNow& now) {
    return one.predicted.peak +
           (now.what == Budgeted::Peak ? std::max<std::int64_t>(0, now.level - one.level) : 0);
  }
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
  [[noreturn]] static void refuse(const BudgetNow& now, std::int64_t smallest) {
    const bool is_peak = now.what == Budgeted::Peak;
    throw OutOfMemory(std::string(is_peak ? "Checkpoint<Budget>" : "Checkpoint<ActivationBudget>") +
                      ": bytes is " + bytes_text(now.bytes) +
                      ", and a step with this batch needs at least " + bytes_text(smallest) +
                      ", in the best plan. Set bytes to that, or use more microbatches" +
                      (is_peak ? " or more ranks of Shard<FSDP>." : "."));
  }

  std::vector<PlannedBatches> all_;
  std::size_t present_ = 0;
};

/// `Keep 0-3, Selective 4, Full 5, segment 6-8`: units by their place in forward.
inline std::string plan_text(const Plan& plan) {
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
