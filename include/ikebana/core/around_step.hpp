#pragma once
// Surrounds the transaction of a step with the wrappers of whole steps.
#include <ikebana/core/core.hpp>
#include <ikebana/ranks/report_failure.hpp>

namespace ikebana::detail {

/// Exchanges the wishes of all ranks now, including wishes since the last step.
template <class Core>
StopWish agree_to_stop_now(Core& core, StopWish wish) {
  if constexpr (Core::one_rank) {
    return wish;
  } else {
    LoopEnd& end = core.loop_end;
    wish = std::max(wish, std::exchange(end.of_this_rank, StopWish::No));
    end.of_all_ranks =
        together(core, "an agreement to stop", [&] { return max_of(core.ranks().data(), wish); });
    return end.of_all_ranks;
  }
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

/// Makes a step within the hooks that surround a whole step, the outermost first: observe sees all
/// of it, capture may replay it, checkpoint may plan, accumulate may repeat it, precision may set
/// what is global. A dry step is one attempt without any of them, of which no other rank is
/// informed.
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
