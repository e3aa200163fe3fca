#pragma once
// Surrounds the transaction of a step with the wrappers of whole steps.
#include <ikebana/core/core.hpp>
#include <ikebana/ranks/report_failure.hpp>

namespace ikebana::detail {

/// Around a whole step, outermost first: observe sees all of it, capture may replay it, checkpoint
/// may plan, accumulate may repeat it, precision may set what is global. A dry step is one
/// attempt, without any of them, and no other rank hears of it.
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
  if (core.step.dry != nullptr) return next();
  return reported_to_ranks(core, [&] {
    check_memory_limits(core);
    return around_step(Wrappers(), core, batch, next);
  });
}

}  // namespace ikebana::detail
