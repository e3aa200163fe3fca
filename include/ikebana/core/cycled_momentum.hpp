#pragma once
// Checks that the momentum that a schedule cycles exists.
#include <ikebana/detail/text.hpp>
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

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/cycled_momentum.ipp>
#endif
