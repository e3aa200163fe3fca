#pragma once
// The state of a step, in one place.
#include <ikebana/hooks.hpp>
#include <ikebana/run/dry_listener.hpp>
#include <ikebana/run/failed_unit.hpp>

namespace ikebana {

namespace detail {
/// The last step of which an error said what memory it takes (estimate/explain.hpp).
struct ExplainedStep {
  std::string of;    // the values of the policies, and the sizes of the batch
  std::string text;  // empty where it could not be found out
};
}  // namespace detail

/// Where the present step is and what it has computed so far. `attempts` and `deferred` outlast it.
struct StepState {
  StepState();
  ~StepState();
  StepState(const StepState&) = delete;
  StepState& operator=(const StepState&) = delete;

  std::int64_t attempts = 0;                     ///< steps that were begun and not undone
  std::size_t microbatch = 0, microbatches = 0;  ///< the present one, from 1; how many there are
  std::size_t own_microbatches = 0;  ///< of this rank's batch; those that follow are dummies
  bool is_dummy = false;             ///< the present one weighs nothing; in evaluation as well
  bool has_ended = false;       ///< this rank's loader; it takes part in the steps of other ranks
  bool unit_was_run = false;    ///< by this step's loss
  bool partly_updated = false;  ///< an undone step had updated parameters during backward
  bool was_made = false;        ///< what threw had been committed, as a policy around it that fails
  bool is_compared = false;     ///< the recipe, with those of the other ranks
  bool is_opened = false;       ///< the ranks have met in this step
  bool is_watched = false;      ///< the first forward, for a mean that is returned as a sum
  bool is_told_of_mode = false;  ///< that the model is in evaluation mode, by a warning
  StopWish wants_stop = {};      ///< of this rank; the next step tells the others
  StopWish all_stop = {};        ///< of all ranks, as they knew it when the last step opened
  std::optional<BatchPosition> position;  ///< of the next step's batch, if the caller knows it
  /// Set: the step only finds out what it would allocate, and ends before its update.
  detail::DryListener* dry = nullptr;
  Roots roots;  ///< where backward of this microbatch starts
  StepGradients gradients;
  detail::DeferredCheck deferred;  ///< checks whose flags only the device knows
  detail::FailedUnit failed_unit;  ///< of the last exception that left a unit's forward

  bool is_first() const { return attempts == 0; }
  bool is_last_microbatch() const { return microbatch == microbatches; }
  bool is_after_own() const { return microbatch > own_microbatches; }
  /// True for the first forward that trains, once.
  bool begin_watch(bool evaluating);
  void begin();
  void next_microbatch(std::size_t all) { ++microbatch, microbatches = all; }
};

namespace detail {

/// Throws BadModel where no parameter got a gradient, and for one whose memory an update would
/// miss, and that got a gradient: it was frozen, or had other memory, when the trainer was made.
void check_gradients(const StepGradients& gradients, const Masters& masters);
/// Frees them.
void forget_gradients(StepGradients& gradients, const Masters& masters) noexcept;

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/step_state.ipp>
#endif
