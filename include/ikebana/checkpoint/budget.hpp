#pragma once
// Defines Checkpoint<Budget<>> and Checkpoint<ActivationBudget<>>: the fastest plan within some
// bytes.
#include <ikebana/checkpoint/budget/budget_mechanism.hpp>

namespace ikebana {

/// The fastest step whose peak is not above `limit`: everything that a MemoryCounter of the process
/// counts, and the memory of the trainer that it does not count. The first step, and each with a
/// larger batch, runs every unit as Checkpoint<Full> does and measures bytes and times of each
/// unit, which takes about five more forwards. From then on each unit keeps its activations, is
/// recomputed as in Checkpoint<Selective> or Checkpoint<Full>, or in a segment with others, as an
/// exact search over these measurements chooses. Changes no bit. Throws OutOfMemory if no plan is
/// within the budget, and states the smallest budget for which there is a plan; the step is undone.
/// Several ranks use one plan.
template <std::int64_t N>
struct Checkpoint<Budget<N>> {};
#pragma GCC diagnostic push  // or a constructor that the compiler makes warns of the field itself
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/// Checkpoint<Budget> with the limit as a value: Checkpoint<Budget<>>{.limit = GiB(8)}.
template <>
struct Checkpoint<Budget<Dynamic>> {
  std::int64_t limit = 0;  ///< the most bytes in use in a step, 1 or more
  /// The former name of `limit`, which is removed in version 0.2. Throws BadValue if both are set.
  [[deprecated("use limit")]] std::int64_t bytes = 0;
};

/// Checkpoint<Budget> for the activations of units alone: `limit` is for what units keep from
/// forward to backward, their inputs included. The peak of a step is not limited.
template <std::int64_t N>
struct Checkpoint<ActivationBudget<N>> {};
/// Checkpoint<ActivationBudget> with the limit as a value.
template <>
struct Checkpoint<ActivationBudget<Dynamic>> {
  std::int64_t limit = 0;  ///< the most bytes of activations from forward to backward, 1 or more
  /// The former name of `limit`, which is removed in version 0.2. Throws BadValue if both are set.
  [[deprecated("use limit")]] std::int64_t bytes = 0;
};
#pragma GCC diagnostic pop

template <std::int64_t N>
struct Mechanism<Checkpoint<Budget<N>>>
    : detail::BudgetMechanism<Checkpoint<Budget<N>>, detail::Budgeted::Peak> {
  using carries_out = Checkpoint<Budget<N>>;
  using detail::BudgetMechanism<Checkpoint<Budget<N>>, detail::Budgeted::Peak>::BudgetMechanism;
};
template <std::int64_t N>
struct Mechanism<Checkpoint<ActivationBudget<N>>>
    : detail::BudgetMechanism<Checkpoint<ActivationBudget<N>>, detail::Budgeted::Activations> {
  using carries_out = Checkpoint<ActivationBudget<N>>;
  using detail::BudgetMechanism<Checkpoint<ActivationBudget<N>>,
                                detail::Budgeted::Activations>::BudgetMechanism;
};

}  // namespace ikebana
