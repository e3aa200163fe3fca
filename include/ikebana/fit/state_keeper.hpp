#pragma once
// Saves the states of `fit`, and restores the state from which it resumes.
#include <ikebana/fit/fit_calls.hpp>
#include <ikebana/fit/fit_state.hpp>
#include <ikebana/fit/options.hpp>
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/state_folder.hpp>

namespace ikebana::detail {

/// Saves the states of one `fit` to a folder. Does nothing if `save_to` is empty.
class StateKeeper {
 public:
  StateKeeper(FitCalls& calls, const FitSettings& options, FitState& state);

  /// Opens the folder, and with `resume` restores its newest state.
  void begin();
  /// Saves a state if one is due, or if `validation`, which may be null, is the best so far.
  void after_step(const Evaluation* validation);
  /// Call it after the position has moved to the next epoch.
  void after_epoch(const Epoch& epoch);
  /// Saves a state if `fit` stops within an epoch.
  void after_stop();
  /// Waits for the last save. Throws its error if it failed.
  void end();

 private:
  bool resumes_within_epoch() { return calls_.keeps_state() || calls_.indexed_batches() >= 0; }
  bool saves() const { return !options_.save_to.empty(); }
  void check();
  void begin_train_metrics();
  void refuse_other_states(bool is_empty) const;
  /// Begins on several ranks: the first rank opens the folder, and tells the others which states it
  /// has.
  void begin_on_ranks();
  /// Checks that each rank can write to the same folder, because each writes its own file in each
  /// save. Finds a rank that cannot now instead of at the end.
  void check_folder_of_ranks(RankGroup& group);
  void resume_on_ranks(RankGroup& group, const std::vector<std::string>& steps);
  /// Restores a state, and reports it on stderr, also if that is a log: losses that begin low, and
  /// epochs that begin late, would otherwise surprise.
  void resume(RankState state, std::int64_t rank);
  StateParts parts();
  bool is_best(const Evaluation& evaluation);
  void save(bool is_best);
  void save_alone(std::int64_t step, bool is_best);
  void save_on_ranks(std::int64_t step, bool is_best);
  void wait_for_disk();
  void finish_save();
  /// Calls `save`, and warns if it fails. A failed save does not end training, because the state in
  /// memory is worth more than the saved one.
  void warn_if_it_fails(c10::function_ref<void()> save);

  FitCalls& calls_;
  const FitSettings& options_;
  FitState& fit_state_;
  StateFolder folder_;
  AsyncSaver saver_;
  std::exception_ptr error_;    // the error of the last save
  std::int64_t last_step_ = 0;  // the step of the last save
  bool last_is_best_ = false;   // the last save is of the best state so far
  bool step_is_saved_ = false;  // the step that was just made is saved
  double previous_best_ = 0;    // the best value before the last save
  bool has_warned_of_slow_disk_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/state_keeper.ipp>
#endif
