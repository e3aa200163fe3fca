#pragma once
// The hooks that every mechanism is asked, and those that several axes are asked.
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

/// The hooks that every mechanism is asked. Up to `prepare` and an optimizer's `update` a hook may
/// throw, and the step is then undone. After it none may, and each is noexcept.
struct Hooks {
  /// Once, when the trainer is made: the device it computes on, and the model's units.
  void attach(c10::Device, const UnitTable&) {}
  /// After all are attached: the master weights, as they are stored from now on.
  void begin(const Masters&) {}
  /// With several ranks, before each step: whether this rank's processor has instructions for what
  /// this policy multiplies; and then whether all ranks have, so that all compute alike.
  bool has_instructions() const { return true; }
  void use_instructions(bool /*on_all_ranks*/) {}  ///< the answer of all ranks
  /// Every allocation and every check of the update, whose gradients are `values / divisor`.
  /// `rate(lr)` is the learning rate of this step for the base learning rate `lr`, and
  /// `rate.momentum(m)` its momentum (hooks/step_rate.hpp).
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {}
  /// 11. On a CPU not after a step that is rejected; a device's `found_inf` says whether it is.
  /// What the update has left of the gradients' values depends on the optimizer: some divide them.
  void after_update(const Masters&, const StepGradients&) noexcept {}
  /// Also after an update that was skipped.
  void end_step(const StepGradients&, Report&) noexcept {}  // 13
  /// After an exception: undo what this step did.
  void abort() noexcept {}
  /// Called by `fit` after each epoch and its validation. May throw.
  void end_epoch(const Epoch&) {}
  /// The values of the policy as a user would write them; empty: none.
  std::string describe() const { return {}; }
  /// What is saved and loaded.
  void state(Archive&, const Masters&) {}
};

// Hooks that several axes are asked. A wrapper calls `next` exactly once, or once more to do it
// again.

/// The hook of axes that are around a whole step.
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

/// The hook of axes that are around the forward of each unit.
struct UnitWrapperHooks {
  /// True for a mechanism that works in `around_unit`: a step that runs no unit is then an error.
  static constexpr bool per_unit = false;
  /// `next(args...)` computes the unit. `next.owned()` is a copy of it that may be called later,
  /// with other tensors; Observe, of which there may be several, has none.
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }
};
/// The hooks of axes that are called before and after the backward of each unit.
struct UnitBackwardHooks {
  /// Declared true by a mechanism that has the two hooks: they are called for no other.
  static constexpr detail::Undeclared listens_to_backward = {};
  /// The first gradient of a result of the unit is there.
  void before_unit_backward(const Unit&) {}
  /// All that the unit computes in backward is done; before the next unit's backward begins.
  void after_unit_backward(const Unit&) {}
};
/// 4, 8, 12. The hooks of axes that decide what a unit computes with (parameters/): `gather` turns
/// master weights into gathered parameters, `reduce` the gradients of gathered parameters into
/// those of master weights. Every unit must then be run by `run` in each step, unless its policy
/// has a field `allow_unused_units` that is true.
struct GatherHooks {
  /// Declared true by a mechanism that has these hooks; they are called of no other. A unit then
  /// computes with what `gather` returns.
  static constexpr detail::Undeclared moves_parameters = {};
  /// Declared true by one whose gathered parameters stay between steps.
  static constexpr bool keeps_gathered = false;
  /// Declared true by one that has `begin_gather`.
  static constexpr detail::Undeclared gathers_ahead = {};
  /// The unit will be needed next, and `gather` is called with these tensors then: begins to copy
  /// or to receive, and does not wait for it. Not called for a unit that is not needed after all.
  void begin_gather(const Unit&, const Tensors& /*masters*/) {}
  /// Finishes what was begun, or does all of it. What it returns may outlive the mechanism.
  Tensors gather(const Unit&, Tensors masters) { return masters; }
  /// One gradient for each parameter, undefined where there is none. Where the unit's gradients
  /// arrive later, an undefined one is returned, and Shard's `finish_reductions` adds it.
  Tensors reduce(const Unit&, Tensors gradients) { return gradients; }
};
/// 4. The hooks of axes that also decide what is stored: `to_masters` turns full parameters into
/// master weights, one for each. The tensors that it returns are stored as they are, without a
/// copy.
struct StorageHooks : GatherHooks {
  /// Full parameters to master weights.
  Tensors to_masters(const Unit&, Tensors full) { return full; }
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
