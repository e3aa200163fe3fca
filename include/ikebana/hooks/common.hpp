#pragma once
// Defines the hooks that a step calls on every mechanism, and the hooks that several axes share.
#include <ikebana/batch.hpp>
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/grammar/axis_of.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/loss.hpp>
#include <ikebana/model.hpp>
#include <ikebana/report.hpp>
#include <ikebana/state/archive.hpp>
#include <type_traits>

namespace ikebana {

namespace detail {
/// The engine's hooks that every mechanism is asked.
struct EngineHooks {
  /// With several ranks, before each step: returns whether this rank's processor has instructions
  /// for what this policy multiplies.
  bool has_instructions() const { return true; }
  /// Tells the mechanism then whether all ranks have them, so that all compute alike.
  void use_instructions(bool /*on_all_ranks*/) {}
};
}  // namespace detail

/// The hooks that every mechanism is asked. Up to `prepare` and an optimizer's `update` a hook may
/// throw, and the step is then undone. After it none may, and each is noexcept.
struct Hooks : detail::EngineHooks {
  /// Once, when the trainer is made: gives the device that it computes on, and the model's units.
  void attach(c10::Device, const UnitTable&) {}
  /// Once, after all are attached: gives the master weights, as they are stored from now on.
  void begin(const Masters&) {}
  /// Makes every allocation and every check of the update, whose gradients are `values / divisor`.
  /// `rate(lr)` is the learning rate of this step for the base learning rate `lr`, and
  /// `rate.momentum(m)` its momentum (hooks/step_rate.hpp).
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {}
  /// 11. Is called after an update, and on a CPU not after a step that is rejected; a device's
  /// `found_inf` says whether it is. The optimizer may have divided the gradients' values.
  void after_update(const Masters&, const StepGradients&) noexcept {}
  /// 13. Ends a step, also one whose update was skipped, and may add to its report.
  void end_step(const StepGradients&, Report&) noexcept {}
  /// After an exception: undoes what this step did.
  void abort() noexcept {}
  /// Is called by `fit` after each epoch and its validation. May throw.
  void end_epoch(const Epoch&) {}
  /// Returns the values of the policy as a user would write them, and an empty text for no values.
  std::string describe() const { return {}; }
  /// Lists what is saved and loaded.
  void state(Archive&, const Masters&) {}
};

// Several axes are asked these hooks. A wrapper calls `next` exactly once, or once more to do it
// again.

/// The base of axes that are around a whole step.
struct StepWrapperHooks {
  /// `next()` makes the whole step, as a transaction: after an exception it may be called again.
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    return next();
  }
};
namespace detail {
/// The default of a declaration that a mechanism with the hook must make: false. A type of its own
/// tells it from a false that a mechanism declares.
struct Undeclared : std::false_type {};
}  // namespace detail

/// The base of axes that are around the forward of each unit.
struct UnitWrapperHooks {
  /// True for a mechanism that works in `around_unit`: a step that runs no unit is then an error.
  static constexpr bool per_unit = false;
  /// `next(args...)` computes the unit. `next.owned()` is a copy of it that may be called later,
  /// with other tensors; a mechanism on observe, of which there may be several, is given none.
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }
};
/// The base of axes that are called before and after the backward of each unit.
struct UnitBackwardHooks {
  /// Declared true by a mechanism that has the two hooks: they are called for no other.
  static constexpr detail::Undeclared listens_to_backward = {};
  /// 8. Is called when the first gradient of a result of the unit is there.
  void before_unit_backward(const Unit&) {}
  /// 8. Is called when everything that the unit computes in backward is done, before the next
  /// unit's backward.
  void after_unit_backward(const Unit&) {}
};
/// The base of axes that decide what is stored and what a unit computes with (parameters/):
/// `to_masters` turns parameters into master weights, `gather` these into gathered parameters,
/// `reduce` gradients of gathered parameters into gradients of master weights. Every unit must then
/// be run by `run` in each step, unless its policy has a field `allow_unused_units` that is true.
struct StorageHooks {
  /// Declared true by a mechanism that has these hooks; no other one is asked them. A unit then
  /// computes with what `gather` returns.
  static constexpr detail::Undeclared moves_parameters = {};
  /// Declared true by one whose gathered parameters stay between steps.
  static constexpr bool keeps_gathered = false;
  /// Declared true by one that has `begin_gather`.
  static constexpr detail::Undeclared gathers_ahead = {};
  /// 4. Turns full parameters into master weights, one for each, when the trainer is made. The
  /// tensors that it returns are stored as they are, without a copy.
  Tensors to_masters(const Unit&, Tensors full) { return full; }
  /// 4. The unit is needed next, and `gather` is called with these tensors then: begins to copy or
  /// to receive, and does not wait for it. Not called for a unit that is not needed after all.
  void begin_gather(const Unit&, const Tensors& /*masters*/) {}
  /// 4. Finishes what `begin_gather` began, or does all of it. The tensors that it returns may
  /// outlive the mechanism.
  Tensors gather(const Unit&, Tensors masters) { return masters; }
  /// 8. Takes one gradient for each parameter, which is undefined if there is no gradient, and
  /// returns the gradients of the master weights. If they arrive later, they are undefined:
  /// `finish_reductions` adds them.
  Tensors reduce(const Unit&, Tensors gradients) { return gradients; }
};

namespace detail {
/// Rejects the update if the loss is not finite: calls `raise`, on a CPU at once, on a device when
/// a later step begins.
void accept_finite_loss(StepGradients& gradients, const LossValue& loss, DeferredCheck& deferred,
                        std::function<void()> raise);
}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/hooks/impl/common.ipp>
#endif
