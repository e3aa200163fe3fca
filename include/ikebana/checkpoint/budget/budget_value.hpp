#pragma once
// The bytes of a budget, as a value or as a template argument, and the plans for them.
#include <ikebana/checkpoint/budget/plans.hpp>
#include <ikebana/checkpoint/frame/recompute.hpp>
#include <ikebana/detail/bytes.hpp>

namespace ikebana::detail {

/// The number that is a template argument of the policy.
template <class Policy>
inline constexpr std::int64_t fixed_budget = Dynamic;
template <template <std::int64_t> class Which, std::int64_t N>
inline constexpr std::int64_t fixed_budget<Checkpoint<Which<N>>> = N;

/// The value of Checkpoint<Budget> or Checkpoint<ActivationBudget>, and the plans that were made.
template <class Policy, Budgeted what>
class BudgetValue : public CheckpointMechanism {
 public:
  Policy values;
  explicit BudgetValue(Policy v) : values(v) { bytes(); }

  /// The policy's own values, which ranks compare; `describe` has the plan as well.
  std::string describe_values() const { return "bytes=" + std::to_string(bytes()); }
  /// The most bytes that a step may have in use, which other policies must not contradict.
  std::int64_t memory_limit() const
    requires(what == Budgeted::Peak)
  {
    return bytes();
  }
  std::int64_t bytes() const {
    if constexpr (fixed_budget<Policy> != Dynamic) {
      return fixed_budget<Policy>;
    } else {
      if (values.bytes > 0) return values.bytes;
      throw BadValue(std::string(what == Budgeted::Peak ? "Checkpoint<Budget<>>"
                                                        : "Checkpoint<ActivationBudget<>>") +
                     ": bytes is " + std::to_string(values.bytes) +
                     "; it must be 1 or more, e.g. {.bytes = GiB(8)}.");
    }
  }

  std::string describe() const {
    if (plans_.empty() || !plans_.present().has_plan) return describe_values();
    const PlannedBatches& one = plans_.present();
    std::string text = describe_values() + "; " + plan_text(one.plan) + "; " +
                       (what == Budgeted::Peak ? "peak " : "activations ") +
                       bytes_text(one.predicted.peak) + ", recomputes " +
                       std::to_string(one.predicted.time / 1'000'000) + " ms";
    if (!one.seconds.empty())
      text += " of " + std::to_string(std::lround(1e3 * predicted_seconds(one.plan))) + " ms";
    return text;
  }

  /// For tests and benchmarks: what was measured, the present plan, and what it is predicted to
  /// need. Another plan, which the steps that follow use; an empty one ends that.
  const PlannedBatches& planned() const { return plans_.present(); }
  bool has_measured() const { return !plans_.empty(); }
  void force(Plan plan) { forced_ = std::move(plan); }
  /// Of a step by this plan, from the steps that were made by the present one.
  double predicted_seconds(const Plan& plan) const {
    const PlannedBatches& one = plans_.present();
    std::vector<double> sorted = one.seconds;
    if (sorted.empty()) return 0;
    std::sort(sorted.begin(), sorted.end());
    const auto recomputes = predict(one.planned, plan).time - one.predicted.time;
    return sorted[sorted.size() / 2] + 1e-9 * static_cast<double>(recomputes);
  }

 protected:
  /// Not even Full is within the budget. What it needs is not known: the step did not go on.
  [[noreturn]] void refuse_limit() const {
    throw OutOfMemory(
        "Checkpoint<Budget>: bytes is " + bytes_text(bytes()) +
        ", and a step with this batch needs more, even where every unit is "
        "recomputed by itself. Raise it, use more microbatches or more ranks of Shard<FSDP>.");
  }

  Plans plans_;
  Plan forced_;
};

}  // namespace ikebana::detail
