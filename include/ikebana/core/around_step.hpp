#pragma once
// What surrounds the transaction of a step: the wrappers of whole steps, and the report of an
// exception to the other ranks.
#include <ikebana/core/core.hpp>

namespace ikebana::detail {

/// Calls `f`. Where it throws, that is reported to the other ranks, so that none waits for this
/// one.
template <class Core, class F>
decltype(auto) reported_to_ranks(Core& core, F&& f) {
  if constexpr (Core::one_rank) {
    return f();
  } else {
    try {
      return f();
    } catch (...) {
      core.mechanisms.shard.offer_exception(std::current_exception());
      throw;
    }
  }
}

/// Around a whole step, outermost first: observe sees all of it, capture may replay it, checkpoint
/// may plan, accumulate may repeat it, precision may set what is global.
template <class Core, class Batch, class Next>
Report around_step(AxisList<>, Core& core, const Batch&, Next&& next) {
  return reported_to_ranks(core, next);
}
template <class Core, class Batch, class Next, class Axis, class... Inner>
Report around_step(AxisList<Axis, Inner...>, Core& core, const Batch& batch, Next&& next) {
  auto inner = [&] { return around_step(AxisList<Inner...>(), core, batch, next); };
  return core.mechanisms.on(std::type_identity<Axis>()).around_step(core, batch, inner);
}
template <class Core, class Batch, class Next>
Report around_step(Core& core, const Batch& batch, Next&& next) {
  using Wrappers = typename std::decay_t<decltype(core.mechanisms)>::template active<StepWrappers>;
  return around_step(Wrappers(), core, batch, next);
}

}  // namespace ikebana::detail
