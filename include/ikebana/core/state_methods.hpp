#pragma once
// The methods of a trainer that list, compare and load its state, for those that save and load it
// (state/save_and_load.hpp) and for programs that keep states in memory.
#include <ikebana/core/around_step.hpp>
#include <ikebana/state/rank_states.hpp>
#include <ikebana/state/state_parts.hpp>

namespace ikebana {

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
    Archive archive(copy, Archive::Mode::Check);
    check_parts(archive, parts);
    load_parts(archive, parts);
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
    Archive archive(state.tensors, Archive::Mode::Check, &state.rows);
    if (const auto ranks = static_cast<Self&>(*this).several_ranks())
      detail::all_or_none<BadState>(ranks->data(), "the check of a state", [&] {
        check_parts(archive, parts);
        return std::string();
      });
    else check_parts(archive, parts);
    load_parts(archive, parts);
  }

 private:
  auto& core() { return static_cast<Self&>(*this).core(); }

  StateDict tensors(const StateParts& parts, StateRows* rows) {
    detail::BusyGuard busy(core().busy);
    StateDict dict;
    Archive archive(dict, Archive::Mode::Save, rows);
    core().state(archive), parts.state(archive);
    return dict;
  }
  void check_parts(Archive& archive, const StateParts& parts) {
    core().state(archive), parts.state(archive);
    archive.finish_check();
  }
  void load_parts(Archive& archive, const StateParts& parts) {
    parts.state(archive), core().state(archive);  // a part of the user's may throw
    bridge::forget_cast_weights(core().device.type());
    core().step.is_compared = false;
  }
};

}  // namespace ikebana
