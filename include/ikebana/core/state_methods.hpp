#pragma once
// The methods of a trainer that list, compare and load its state, for those that save and load it
// (state/save_and_load.hpp) and for programs that keep states in memory.
#include <atomic>
#include <ikebana/core/around_step.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/state_parts.hpp>

namespace ikebana {

namespace detail {

/// Lists what the core of a trainer saves and loads.
using StateOfCore = c10::function_ref<void(Archive&)>;

/// The tensors of a state, uncopied; and, unless it is null, their rows.
StateDict tensors_of(std::atomic<bool>& busy, StateOfCore core, const StateParts& parts,
                     StateRows* rows);
/// Loads a state, on all of `ranks` or on none, where there are several. `rows` may be null.
void load_tensors_of(StateDict& tensors, StateRows* rows, StateOfCore core, const StateParts& parts,
                     const std::optional<Ranks>& ranks);

}  // namespace detail

/// The base of `Trainer`, which is `Self`.
template <class Self>
class StateMethods {
 public:
  /// The tensors that `state` copies, uncopied: valid until the next step. Of several ranks each
  /// has its own.
  StateDict state_view(const StateParts& parts = {}) { return tensors(parts, nullptr); }
  /// Restores a state, to the bit; of several ranks each its own. Throws BadState, and changes
  /// nothing, where it does not fit.
  void restore(const StateDict& state, const StateParts& parts = {}) {
    detail::BusyGuard busy(core().busy);
    StateDict copy = state;
    restore_tensors(copy, nullptr, parts, std::nullopt);
  }

  // The same of states in files, of which each rank has the rows that it needs.

  RankState rank_state(const StateParts& parts = {}) {
    RankState all;
    all.tensors = tensors(parts, &all.rows);
    return all;
  }
  /// Which rows of a state's tensors this rank loads; of those that are not in it, all.
  StateRows rows_to_load(StateDict names) {
    StateRows rows;
    Archive archive(names, Archive::Mode::Plan, &rows);
    core().state(archive);
    return rows;
  }
  /// Restores it on all ranks, or on none, which is an error of all.
  void restore_rows(RankState state, const StateParts& parts = {}) {
    detail::BusyGuard busy(core().busy);
    restore_tensors(state.tensors, &state.rows, parts, static_cast<Self&>(*this).several_ranks());
  }

 private:
  auto& core() { return static_cast<Self&>(*this).core(); }

  StateDict tensors(const StateParts& parts, StateRows* rows) {
    auto& of = core();
    return detail::tensors_of(of.busy, [&](Archive& archive) { of.state(archive); }, parts, rows);
  }
  void restore_tensors(StateDict& tensors, StateRows* rows, const StateParts& parts,
                       const std::optional<Ranks>& ranks) {
    auto& of = core();
    detail::load_tensors_of(
        tensors, rows, [&](Archive& archive) { of.state(archive); }, parts, ranks);
    bridge::forget_cast_weights(of.device.type());
    of.step.is_compared = false;
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/state_methods.ipp>
#endif
