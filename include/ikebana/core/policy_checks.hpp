#pragma once
// Checks values of policies that depend on each other, when a trainer is made and before a step.
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/grammar/axis_of.hpp>
#include <string>
#include <type_traits>

namespace ikebana::detail {

/// False for an optimizer of the library without momentum or betas. For other optimizers only a
/// step shows whether they ask for one.
template <class Optimizer>
inline constexpr bool may_have_momentum = !declared<Optimizer> || requires(Optimizer o) {
  o.momentum;
} || requires(Optimizer o) { o.betas; };
template <class Optimizer>
inline constexpr bool may_have_momentum<InBackward<Optimizer>> = may_have_momentum<Optimizer>;
template <class First, class Rest>
inline constexpr bool may_have_momentum<Combined<First, Rest>> =
    may_have_momentum<First> && may_have_momentum<Rest>;

[[noreturn]] void refuse_cycled_momentum(const std::string& schedule, const std::string& optimizer);

/// Throws BadValue if a schedule cycles the momentum of an optimizer without momentum.
template <class Schedule, class Optimizer>
void check_cycled_momentum(const Schedule& schedule, const Optimizer& optimizer) {
  using Policy = std::decay_t<decltype(optimizer.values)>;
  if constexpr (requires { schedule.cycles_momentum(); })
    if (schedule.cycles_momentum() && !may_have_momentum<Policy>)
      refuse_cycled_momentum(type_name<std::decay_t<decltype(schedule.values)>>(),
                             type_name<Policy>());
}

/// Throws BadValue if an average needs weights that the optimizer updates before it sees them.
template <class Optimizer, class Average>
void check_initial_weights(const Average& average) {
  if constexpr (Optimizer::updates_in_backward && requires { average.refuse_update_in_backward(); })
    average.refuse_update_in_backward();
}

/// Throws BadValue if two policies limit the memory of a step to different numbers of bytes.
template <class Core>
void check_memory_limits(const Core& core) {
  const auto& m = core.mechanisms;
  if constexpr (requires { m.checkpoint.memory_limit(), m.accumulate.memory_limit(); }) {
    const std::int64_t budget = m.checkpoint.memory_limit(), limit = m.accumulate.memory_limit();
    if (limit != 0 && limit != budget)
      throw BadValue("Accumulate<Fit<>>: limit is " + std::to_string(limit) +
                     " bytes, and that of Checkpoint<Budget<>> is " + std::to_string(budget) +
                     ". Both are planned within one limit: write the same number, or leave "
                     "`limit` out, which is then the budget.");
  }
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/policy_checks.ipp>
#endif
