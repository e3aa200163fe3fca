#pragma once
// The hooks of policies: where a step asks mechanisms, each with a default that does nothing. A
// Mechanism derives from the base of its policy's axis, such as `ClipHooks`, and hides the hooks
// that it implements; nothing is virtual. A step calls the hooks of `Hooks` (hooks/common.hpp) on
// every mechanism, and the axis's own hooks at the points of step.hpp whose numbers are given here.
//
// The author of a policy needs this file, hooks/common.hpp, and the types that hooks are given:
// hooks/arguments.hpp, hooks/step_rate.hpp for rates, hooks/numbers.hpp for numbers that a recorded
// step reads. The rest is the library's: hooks/engine.hpp has the hooks of its own policies,
// hooks/table.hpp lists all hooks, hooks/update.hpp and hooks/non_finite.hpp ask and check them.
#include <ikebana/hooks/common.hpp>
#include <ikebana/hooks/engine.hpp>
#include <ikebana/hooks/hooks_of.hpp>

namespace ikebana {
// The following classes are the bases of the axes, the outermost first.

/// The base of mechanisms on the axis observe, which measure a step and add to its report.
struct ObserveHooks : Hooks, StepWrapperHooks, UnitWrapperHooks, UnitBackwardHooks {
  /// `next()` is one phase of a step.
  template <class Next>
  decltype(auto) around_phase(Phase, Next&& next) {
    return next();
  }
};
/// The base of mechanisms on the axis capture, which record a step and replay it.
struct CaptureHooks : Hooks, StepWrapperHooks, UnitWrapperHooks, detail::CaptureEngineHooks {};
/// The base of mechanisms on the axis shard. By default there is one rank.
struct ShardHooks : Hooks,
                    UnitWrapperHooks,
                    UnitBackwardHooks,
                    StorageHooks,
                    detail::ShardEngineHooks {
  /// Returns the ranks that train this model: `Ranks`, if there are several.
  OneRank ranks() const { return {}; }
};
/// The base of mechanisms on the axis offload, which store elsewhere what is not needed now.
struct OffloadHooks : Hooks,
                      UnitWrapperHooks,
                      UnitBackwardHooks,
                      StorageHooks,
                      detail::OffloadEngineHooks {};
/// The base of mechanisms on the axis checkpoint, which choose what forward keeps.
struct CheckpointHooks : Hooks,
                         StepWrapperHooks,
                         UnitWrapperHooks,
                         detail::CheckpointEngineHooks {};
/// The base of mechanisms on the axis precision: dtypes, the loss scale, which loss is accepted.
struct PrecisionHooks : Hooks,
                        StepWrapperHooks,
                        UnitWrapperHooks,
                        StorageHooks,
                        detail::PrecisionEngineHooks {
  /// Surrounds each forward of the model, also in an evaluation.
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    return next();
  }
  /// 7. Returns the gradient that backward starts with.
  at::Tensor scale(const at::Tensor& seed) { return seed; }
  void unscale(StepGradients&) {}  ///< 9. Divides by the loss scale.
  /// 10. Rejects an update that must not be made (`StepGradients::reject`), or throws. By default
  /// an update is rejected if the loss is not finite.
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks&, DeferredCheck& deferred) {
    if (!loss.where.empty()) refuse_loss(loss.where);
    detail::accept_finite_loss(gradients, loss, deferred, [] { refuse_loss({}); });
  }

 private:
  [[noreturn]] static void refuse_loss(const std::string& where);
};
/// The base of mechanisms on the axis accumulate, which cut a batch into microbatches.
struct AccumulateHooks : Hooks, StepWrapperHooks, detail::AccumulateEngineHooks {
  /// 1. Returns the microbatches of a batch.
  template <class Batch>
  auto split(const Batch& batch) {
    return std::span<const Batch>(&batch, 1);
  }
};
/// 5. The base on the axis objective; define `Loss loss(run, model, batch)`, perhaps `count(model,
/// batch)`.
struct ObjectiveHooks : Hooks {};
/// The base of mechanisms on the axis clip, which see all gradients and may change or reject them.
struct ClipHooks : Hooks {
  /// False: before each of its hooks the gradients are divided by `divisor`, in one more pass, so
  /// that `values` are the true gradients. True for a mechanism that reads `divisor` itself.
  static constexpr bool takes_divisor = false;
  /// 9. With several ranks, before `clip`: computes what `gradients` sums over them.
  template <class Ranks>
  void close_step(StepGradients&, Ranks&) {}
  /// 9. Changes `gradients.values`, or what they are divided by (`StepGradients::divide`).
  template <class Ranks>
  void clip(StepGradients&, Ranks&) {}
  /// 10. Rejects an update that must not be made (`StepGradients::reject`), or throws.
  template <class Ranks>
  void accept(StepGradients&, const LossValue&, Ranks&, DeferredCheck&) {}
};
/// The base of mechanisms on the axis optimizer, which update the master weights.
struct OptimizerHooks : Hooks, detail::OptimizerEngineHooks {
  /// Declared true by an optimizer whose update of an element depends on no other element: it may
  /// be given slices of parameters.
  static constexpr bool by_elements = false;
  /// Returns the learning rate before the schedule, of parameters without a group.
  double base_lr() const { return 0; }
  /// 11. Updates the master weights by true gradients: divided and unscaled. Not called for a step
  /// that is rejected. If it throws, or a device rejects the step, the master weights and what
  /// `state` lists are put back, from copies; an `update` that is noexcept needs none on a CPU. One
  /// that declares `static constexpr bool takes_divisor = true;` does all of this itself: it
  /// divides by `divisor`, changes nothing if `found_inf` is set, and undoes its update in `abort`.
  void update(const Masters&, StepGradients&) {}
};
/// The base of mechanisms on the axis schedule: the rate and the momentum of each step.
struct ScheduleHooks : Hooks {
  /// Returns the learning rate of step `step`, which counts from 0, for a group whose own is
  /// `base`.
  double rate(double base, std::int64_t /*step*/) const { return base; }
  /// Returns its momentum, or first beta, if the optimizer has one. It is called in `prepare` at
  /// the latest.
  double momentum(double base, std::int64_t /*step*/) const { return base; }
};
/// The base of mechanisms on the axis average, which decide which weights are evaluated.
struct AverageHooks : Hooks {
  /// Chooses the weights that are evaluated: `next()` computes with the master weights as they are
  /// at that time. A mechanism that changes them calls `parameters.mark_stale()`, and restores
  /// them.
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters&, Next&& next) {
    return next();
  }
  /// The weights were replaced, as by `load_weights`: the average starts again from them. An
  /// average that does not override it refuses such a call.
  void restart() noexcept {}
};
/// The base of mechanisms on the axis freeze, which decide which parameters are trained.
struct FreezeHooks : Hooks {
  /// Before all others, when the trainer is made: parameters that then require no gradient are
  /// never trained.
  void freeze(const UnitTable&) {}
};
/// The base of mechanisms on the axis device, which move the model and batches to one.
struct DeviceHooks : Hooks {
  /// 1. Moves the batch to the model's device.
  template <class Batch>
  Batch place(const Batch& batch, c10::Device device) {
    return detail::moved(batch, device);
  }
};
/// The base of mechanisms on the axis layout, which lay out the tensors of model and batches.
struct LayoutHooks : Hooks {
  /// 1. Returns the batch with the memory layout that its tensors are to have. Is called after the
  /// device's `place`.
  template <class Batch>
  Batch place(Batch batch, c10::Device) {
    return batch;
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/impl/hooks.ipp>
#endif
