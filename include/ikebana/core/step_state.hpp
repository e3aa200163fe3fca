#pragma once
// The state of a step while it is made.
#include <ikebana/hooks.hpp>
#include <ikebana/ranks/step_opening.hpp>
#include <ikebana/run/dry_listener.hpp>
#include <optional>

namespace ikebana {

namespace detail {
/// The last step of which an error said what memory it takes (estimate/explain.hpp).
struct ExplainedStep {
  std::string of;    // the values of the policies, and the sizes of the batch
  std::string text;  // the text, or empty if it could not be found
};

}  // namespace detail

/// One step while it is made: `step`, the core and the wrappers of units read it. Each group of
/// fields has one owner, which alone writes it. `attempts` and `deferred` outlast the step.
struct StepState {
  StepState();
  ~StepState();
  StepState(const StepState&) = delete;
  StepState& operator=(const StepState&) = delete;

  // Transaction counts the steps and begins one.
  std::int64_t attempts = 0;         ///< steps that were begun and not undone
  std::size_t own_microbatches = 0;  ///< the number of microbatches of this rank's batch; the ones
                                     ///< that follow are dummies

  // `next_microbatch`, which `step` calls, counts on.
  std::size_t microbatch = 0, microbatches = 0;  ///< the present one, from 1; how many there are

  // DummyScope sets it, in evaluation as well.
  bool is_dummy = false;  ///< the present microbatch weighs nothing

  // Core::run_unit sets it.
  bool unit_was_run = false;  ///< whether this step's loss ran a unit

  // Trainer::set_position sets it before a step; the commit takes it away.
  std::optional<BatchPosition> position;  ///< the position of the batch, if the caller knows it

  // The caller of `dry_step` sets it (run/dry_step.hpp).
  detail::DryListener* dry = nullptr;  ///< null: the step computes, and makes its update

  // Core computes the gradients: Totals adds roots, `backward` clears them, `collect_gradients`
  // fills `gradients`, and Precision and Clip change those.
  Roots roots;  ///< the tensors from which backward of this microbatch starts
  StepGradients gradients;
  detail::DeferredCheck deferred;  ///< checks whose flags only the device knows

  bool is_first() const { return attempts == 0; }
  bool is_last_microbatch() const { return microbatch == microbatches; }
  bool is_after_own() const { return microbatch > own_microbatches; }
  void begin();
  void next_microbatch(std::size_t all) { ++microbatch, microbatches = all; }
};

namespace detail {

/// Throws BadModel if no parameter got a gradient, or if one got a gradient whose memory an update
/// would miss, since it was frozen, or had other memory, when the trainer was made.
void check_gradients(const StepGradients& gradients, const Masters& masters);
/// Frees the gradients of the step and of the master weights.
void forget_gradients(StepGradients& gradients, const Masters& masters) noexcept;

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/step_state.ipp>
#endif
