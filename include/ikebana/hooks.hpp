#pragma once
// The hooks: where a step asks mechanisms, each with a default that does nothing. A Mechanism
// derives from the base of its policy's axis, such as `ClipHooks`, and hides the hooks that it
// implements; nothing is virtual. Every mechanism is asked those of `Hooks`
// (hooks/common.hpp), and the axis's own where step.hpp, whose numbers are given here, calls them.
#include <exception>
#include <ikebana/hooks/common.hpp>
#include <ikebana/hooks/hooks_of.hpp>
#include <ikebana/ranks/step_calls.hpp>
#include <optional>
#include <span>

namespace ikebana {
// The base of each axis, outermost first.

/// The base of mechanisms on the axis observe, which measure a step and add to its report.
struct ObserveHooks : Hooks, StepWrapperHooks, UnitWrapperHooks, UnitBackwardHooks {
  /// `next()` is one phase of a step.
  template <class Next>
  decltype(auto) around_phase(Phase, Next&& next) {
    return next();
  }
};
/// The base of mechanisms on the axis capture, which record a step and replay it.
struct CaptureHooks : Hooks, StepWrapperHooks {
  /// `next()` is all of a step that the device computes, from the first forward to the update, and
  /// returns its report.
  template <class Next>
  Report around_body(Next&& next) {
    return next();
  }
};
/// The base of mechanisms on the axis shard; by default one rank. One for several returns `Ranks`
/// from `ranks`, and by these its ranks exchange what they tell each other in a step: when it
/// opens, when its gradients are there, and before the commit.
struct ShardHooks : Hooks, UnitWrapperHooks, UnitBackwardHooks, StorageHooks {
  /// The ranks that train this model.
  OneRank ranks() const { return {}; }
  /// Before the first exchange of a step or an evaluation: after a failure the ranks meet again.
  void open_step() {}
  /// 3. Whether the gradients of this microbatch are reduced over ranks: known before its forward.
  void set_requires_gradient_sync(bool /*is_last*/) {}
  /// Once, where the trainer was given a maker: `maker()` makes the model and returns it.
  template <class Maker>
  auto make_model(Maker&& maker) {
    return maker();
  }
  /// Once for each unit, when the trainer is made: its whole parameters, those of rank 0.
  Tensors full_parameters(const Unit& unit) { return detail::detached(unit.parameters); }
  /// 4. Around each forward of a recipe whose units are gathered while they compute, and before
  /// each of its units is gathered and run: ranks that gather together must do the same.
  void begin_forward(bool /*trains*/) {}
  void begin_unit(const Unit&) {}  ///< before a unit is gathered
  void end_forward() {}            ///< after the forward
  /// 8. The rows of a parameter that this rank stores, of `count`.
  RowRange stored_rows(const Unit&, std::size_t /*parameter*/, std::int64_t count) const;
  /// Once, when the trainer is made: the dtypes in which a unit's gradients are summed over ranks.
  void set_reduce_dtypes(const Unit&, const DTypes&) {}
  // May also have `Tensors to_masters_in_place(const Unit&, Tensors full)`: called instead of
  // `to_masters` where gathered parameters are kept and no other mechanism moves parameters. The
  // master weights may then be rows of `full`, which `gather` completes.

  /// Whether a unit is released after its forward, and gathered again for its backward; no value:
  /// all units but the last, whose backward comes first.
  std::optional<bool> reshard_after_forward() const { return {}; }
  /// Whether the next unit, in forward or in backward, is gathered ahead.
  bool forward_prefetch() const { return true; }
  bool backward_prefetch() const { return true; }  ///< the same in backward
  /// 9. After the last backward: waits for reductions that are on their way, so that the gradients
  /// of all master weights are there.
  void finish_reductions(const Masters&) {}
  /// An exception of this rank, which ends its step or evaluation: tells the other ranks, whose
  /// calls throw from then on until all have opened again. May be called twice.
  void offer_exception(const std::exception_ptr&) noexcept {}
  /// After a failure all ranks meet again; for what they exchange before the step opens.
  void meet_again() {}
  /// True from now on: this rank makes again what runs out of memory, if all ranks do.
  void set_repeats(bool) noexcept {}
  /// After an exception: whether the first rank that failed ran out of memory in what it makes
  /// again. All must return the same. False: they cannot know.
  bool ran_out_of_memory() noexcept { return false; }
};
/// The base of mechanisms on the axis offload, which store elsewhere what is not needed now.
struct OffloadHooks : Hooks, UnitWrapperHooks, UnitBackwardHooks, StorageHooks {
  void begin_step() noexcept {}  ///< before a step gathers anything
  /// 5. Around the loss of a microbatch.
  template <class Batch, class Next>
  decltype(auto) around_loss(const Batch&, Next&& next) {
    return next();
  }
  /// 9. After Shard's `finish_reductions`: the gradients of all master weights are there.
  void finish_gradients(const Masters&) {}
  // May also have `refresh`, which returns whether it did, and `await_refresh(const Unit&)`.
  /// Where the state of optimizers is stored, and where Shard puts the gradients that it has
  /// summed. Asked once, after `attach`.
  StateStorage* state_storage() { return nullptr; }
  GradientStorage* gradient_storage() { return nullptr; }  ///< the same for gradients
};
/// The base of mechanisms on the axis checkpoint, which choose what forward keeps.
struct CheckpointHooks : Hooks, StepWrapperHooks, UnitWrapperHooks {
  /// 2. Before the first forward: what holds for the microbatches of this rank, as bits, such as
  /// which of the plans that were made so far. All ranks then go on with what holds for each.
  template <class Microbatches>
  std::uint64_t usable_plans(const Microbatches&) {
    return 0;
  }
  /// And what holds for those of all ranks: chooses a plan, makes another, or throws.
  template <class Core>
  void begin_plan(Core&, std::uint64_t /*usable*/) {}
  /// As `around_unit`, around the gathering of the unit's parameters as well.
  template <class Next, class... Args>
  decltype(auto) around_gathered_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }
};
/// The base of mechanisms on the axis precision: dtypes, the loss scale, which loss is accepted.
struct PrecisionHooks : Hooks, StepWrapperHooks, UnitWrapperHooks, StorageHooks {
  /// Around each forward of the model, also in an evaluation.
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    return next();
  }
  /// 8. Around each backward of a microbatch.
  template <class Next>
  decltype(auto) around_backward(Next&& next) {
    return next();
  }
  // May also have `Tensors restore_dtype(const Unit&, Tensors masters)`: master weights in the
  // dtype that the parameters had before, for when the trainer releases them. And `void
  // refresh(const Unit&, const Tensors& masters)`: writes new values to the memory of the last
  // gather, without an allocation; otherwise `gather` is asked at the next use.

  /// 8. The dtype in which the gradient of a parameter of this dtype is summed over ranks.
  at::ScalarType reduce_dtype(at::ScalarType parameter) const { return parameter; }
  /// How updates are written. Asked once, after `attach`.
  UpdateRounding* rounding() { return nullptr; }
  /// 7. The gradient that backward starts with.
  at::Tensor scale(const at::Tensor& seed) { return seed; }
  void unscale(StepGradients&) {}  ///< 9. Divides by the loss scale.
  /// 10. Rejects an update that must not be made (`StepGradients::reject`), or throws. The default:
  /// where the loss is not finite.
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks&,
              detail::DeferredCheck& deferred) {
    if (!loss.where.empty()) refuse_loss(loss.where);
    detail::accept_finite_loss(gradients, loss, deferred, [] { refuse_loss({}); });
  }

 private:
  [[noreturn]] static void refuse_loss(const std::string& where);
};
struct PruneHooks : Hooks, GatherHooks {};                       ///< On the axis prune.
struct QuantizeHooks : Hooks, UnitWrapperHooks, GatherHooks {};  ///< On the axis quantize.
/// The base of mechanisms on the axis accumulate, which cut a batch into microbatches.
struct AccumulateHooks : Hooks, StepWrapperHooks {
  /// Declared true by a mechanism that may make a step again with more microbatches: it is then
  /// asked to split each batch of a range, too.
  static constexpr bool fits_memory = false;
  /// 1. The microbatches of a batch.
  template <class Batch>
  auto split(const Batch& batch) {
    return std::span<const Batch>(&batch, 1);
  }
  /// Around what an evaluation computes of one batch, which is on the device, or of none where only
  /// other ranks have one: `next(parts, count)` computes the parts of the batch one by one, and
  /// dummies up to `count`. It may be called again after an exception.
  template <class Core, class Batch, class Next>
  void around_evaluated(Core&, const Batch* batch, Next&& next) {
    return next(std::span<const Batch>(batch, batch != nullptr ? 1 : 0), std::size_t(1));
  }
};
/// 5. On the axis objective; define `Loss loss(run, model, batch)`, perhaps `count(model, batch)`.
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
  void accept(StepGradients&, const LossValue&, Ranks&, detail::DeferredCheck&) {}
};
/// The base of mechanisms on the axis optimizer, which update the master weights.
struct OptimizerHooks : Hooks {
  /// Declared true by an optimizer whose update of an element depends on no other element: it may
  /// be given slices of parameters.
  static constexpr bool by_elements = false;
  /// Declared true by one that updates parameters as their gradients arrive.
  static constexpr bool updates_in_backward = false;
  double base_lr() const { return 0; }  ///< before the schedule, without a group
  /// 7. Called before gradients arrive.
  template <class Rate>
  void before_backward(const LossValue&, std::size_t /*microbatches*/, const Rate&) {}
  /// Whether it has updated parameters as their gradients arrived.
  bool has_updated() const { return false; }
  /// 11. Not called for a step that is rejected. The gradients are true ones: divided, unscaled. If
  /// it throws, or a device rejects the step, the master weights and what `state` lists are put
  /// back, from copies; an `update` that is noexcept needs none on a CPU. One that declares
  /// `static constexpr bool takes_divisor = true;` does all of this itself: it divides by
  /// `divisor`, changes nothing where `found_inf` is set, and undoes its update in `abort`.
  void update(const Masters&, StepGradients&) {}
};
/// The base of mechanisms on the axis schedule: the rate and the momentum of each step.
struct ScheduleHooks : Hooks {
  /// The learning rate of step `step`, which counts from 0, for a group whose own is `base`.
  double rate(double base, std::int64_t /*step*/) const { return base; }
  /// And its momentum, or first beta, where the optimizer has one. Asked in `prepare` at the
  /// latest.
  double momentum(double base, std::int64_t /*step*/) const { return base; }
};
/// The base of mechanisms on the axis average, which decide which weights are evaluated.
struct AverageHooks : Hooks {
  /// Which weights are evaluated. `next()` computes with the master weights as they are then. A
  /// mechanism that changes them calls `parameters.mark_stale()`, and restores them.
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters&, Next&& next) {
    return next();
  }
  /// The weights were replaced, as by `load_weights`: the average starts anew from them. An average
  /// that does not override it refuses such a call.
  void restart() noexcept {}
};
/// The base of mechanisms on the axis freeze, which decide which parameters are trained.
struct FreezeHooks : Hooks {
  /// Before all others, when the trainer is made. Parameters that then require no gradient are
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
  /// 1. After the device's: the batch as its tensors are to lie in memory.
  template <class Batch>
  Batch place(Batch batch, c10::Device) {
    return batch;
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/impl/hooks.ipp>
#endif
