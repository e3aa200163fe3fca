#pragma once
// Defines the plans of one trainer: the batches for which each holds, the exchange of measurements
// between ranks, and the choice of the plan of a step.
#include <array>
#include <cstring>
#include <ikebana/checkpoint/budget/plan.hpp>
#include <ikebana/checkpoint/budget/plan_search.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Costs and some numbers as bytes, for another process on this machine.
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

/// The measurements and the budget of one rank when a plan is made.
struct RankCosts {
  Costs costs;
  std::int64_t budget = 0;

  std::string text() const { return to_bytes(std::array{budget}, costs); }
  static RankCosts of(const std::string& text);

  /// Adds the measurements of another rank: the larger bytes, the sum of times, the smaller budget.
  /// A unit that ranks run at different places is not planned.
  void add(const RankCosts& other);

 private:
  static void add(UnitCosts& unit, const UnitCosts& other);
};

/// Joins the measurements of all ranks; the result is equal on all of them.
inline RankCosts of_all_ranks(const OneRank&, RankCosts own) { return own; }
RankCosts of_all_ranks(const Ranks& ranks, const RankCosts& own);

/// The sizes of every tensor of some microbatches, the largest in each dimension.
class BatchSizes {
 public:
  template <class Microbatch>
  void add(const Microbatch& microbatch) {
    std::vector<c10::DimVector> sizes;
    for_each_tensor(microbatch, [&](const at::Tensor& t) {
      sizes.push_back(t.defined() ? c10::DimVector(t.sizes()) : c10::DimVector());
    });
    if (is_empty_) all_ = std::move(sizes), is_empty_ = false;
    else if (!raise(sizes)) differ_ = true;
  }
  bool empty() const { return is_empty_; }
  /// Returns true if no tensor of `other` is larger in any dimension.
  bool cover(const BatchSizes& other) const;

 private:
  bool raise(const std::vector<c10::DimVector>& sizes);

  std::vector<c10::DimVector> all_;
  bool is_empty_ = true;
  bool differ_ = false;  // the numbers of tensors, or of dimensions, differ
};

/// The sizes of the microbatches of a step. During the first one there are no gradients yet, and
/// during the others there are.
struct StepSizes {
  BatchSizes first, others;

  template <class Microbatches>
  static StepSizes of(const Microbatches& microbatches) {
    StepSizes sizes;
    bool is_first = true;
    for (const auto& microbatch : microbatches)
      (std::exchange(is_first, false) ? sizes.first : sizes.others).add(microbatch);
    return sizes;
  }
  bool cover(const StepSizes& other) const;
};

/// The measurements for some microbatches, and the plan that was made from them.
struct PlannedBatches {
  StepSizes sizes;
  Costs costs;              ///< the costs of this rank, relative to the bytes in use when a step
                            ///< begins
  std::int64_t inputs = 0;  ///< bytes that Full keeps
  Costs planned;            ///< the costs of all ranks, from which the plan was made
  Plan plan;
  bool is_dry = false;  ///< measured without values
  /// False: the times are computed from bytes (by_bytes), until a step by the plan has measured
  /// them.
  bool has_times = true;
  bool has_plan = false;
  std::int64_t budget = 0, level = 0;  ///< the numbers for which the plan was made, on this rank
  Prediction predicted = {};
  std::vector<double> seconds = {};  ///< the times of the latest steps by this plan

  void note_seconds(double one);
  /// Takes costs with measured times, with which the next step makes the plan again.
  void take_times(Costs timed) { costs = std::move(timed), has_times = true, has_plan = false; }
};

/// The quantity that a budget limits: the peak of a step, or the bytes kept from forward to
/// backward.
enum class Budgeted { Peak, Activations };

/// `bytes` is the budget of a step that begins with `level` bytes in use.
struct BudgetNow {
  Budgeted what;
  std::int64_t bytes, level;
};

/// Remembers the latest plans, by the sizes of the microbatches that were measured.
class Plans {
 public:
  static constexpr std::size_t max_plans = 16;

  /// Returns three bits for each plan. They say that it holds for these sizes and this budget, that
  /// it would hold if it were made again, and that it was measured with exactly these sizes.
  std::uint64_t usable(const StepSizes& sizes, const BudgetNow& now) const;
  /// Chooses a plan, on all ranks the same one, and makes it again if none holds as it is. Returns
  /// false if the batches have to be measured. Throws OutOfMemory if they were measured, and no
  /// plan is within the budget.
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

  /// Returns the costs of these batches if a step begins with `level` bytes in use.
  static Costs costs_at(const PlannedBatches& one, const BudgetNow& now);

 private:
  static constexpr std::size_t holds = 0, covers = max_plans, is_exact = 2 * max_plans;
  static std::uint64_t bit(std::size_t plan, std::size_t kind);
  /// Returns the peak of a plan that was made before, if more or less is in use than then.
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

/// Describes a plan as `Keep 0-3, Selective 4, Full 5, segment 6-8`, with units by their place in
/// forward.
std::string plan_text(const Plan& plan);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/plans.ipp>
#endif
