#pragma once
// Bodies of the methods of a trainer that give out, load or replace its state and its weights.
#include <atomic>
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/busy_guard.hpp>
#include <ikebana/ranks/together.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/state_parts.hpp>
#include <ikebana/state/weights.hpp>
#include <optional>

namespace ikebana::detail {

/// Lists what the core of a trainer saves and loads.
using StateOfCore = c10::function_ref<void(Archive&)>;

StateDict tensors_of(std::atomic<bool>& busy, StateOfCore core, const StateParts& parts,
                     StateRows* rows);
void load_tensors_of(StateDict& tensors, StateRows* rows, StateOfCore core, const StateParts& parts,
                     const std::optional<Ranks>& ranks);

/// Returns the tensors of a state, which are not copied, and their rows, unless `rows` is null.
template <class Core>
StateDict tensors_of(Core& core, const StateParts& parts, StateRows* rows) {
  return tensors_of(core.busy, [&](Archive& archive) { core.state(archive); }, parts, rows);
}
/// Loads a state, on all of `ranks` or on none if there are several. `rows` may be null.
template <class Core>
void load_tensors(Core& core, StateDict& tensors, StateRows* rows, const StateParts& parts,
                  const std::optional<Ranks>& ranks) {
  const BusyGuard busy(core.busy);
  load_tensors_of(tensors, rows, [&](Archive& archive) { core.state(archive); }, parts, ranks);
  bridge::forget_cast_weights(core.device.type());
  core.compared.read_again();
}

/// Calls `f(model)` while all parameters are whole, in a call of all ranks.
template <class Core, class F>
decltype(auto) with_full_weights(Core& core, F&& f) {
  return together(core, "with_full_weights", [&]() -> decltype(auto) {
    core.check_model();
    const bridge::OwnCastWeights casts(core.device.type());
    return core.parameters.with_full_weights([&]() -> decltype(auto) { return f(core.model); });
  });
}
/// Calls `f(model)` while all parameters are whole, and with `averaged` have the values that are
/// evaluated.
template <class Core, class F>
decltype(auto) with_full_weights(Core& core, F&& f, const FullWeightOptions& options) {
  if constexpr (is_null_mechanism<std::decay_t<decltype(core.mechanisms.average)>>) {
    return with_full_weights(core, f);
  } else {
    if (!options.averaged) return with_full_weights(core, f);
    const BusyGuard busy(core.busy);
    return together(core, "with_full_weights of averages", [&]() -> decltype(auto) {
      return core.around_evaluation([&]() -> decltype(auto) { return with_full_weights(core, f); });
    });
  }
}

/// True for an average of a user's own that does not override `restart`.
template <class M>
inline constexpr bool keeps_old_average = requires {
  requires own_policy<decltype(M::values)>;
  requires std::is_same_v<decltype(&M::restart), void (AverageHooks::*)() noexcept>;
};
/// Calls `f(model)`, which writes other weights; an average starts again from them.
template <class Core, class F>
void replace_weights(Core& core, F&& f) {
  const BusyGuard busy(core.busy);
  auto& average = core.mechanisms.average;
  if (keeps_old_average<std::decay_t<decltype(average)>>)
    throw BadModel("load_weights: the mechanism of the recipe's `" +
                   type_name<std::decay_t<decltype(average.values)>>() +
                   "` has no `void restart() noexcept`, which starts the average again: "
                   "evaluation would use the former weights. Write one; empty, if it keeps none.");
  with_full_weights(core, f);
  average.restart();
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/state_and_weights.ipp>
#endif
