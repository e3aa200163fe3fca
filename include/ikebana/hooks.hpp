#pragma once
// The hooks: every point of a step at which mechanisms are asked, with a default that does nothing.
// A Mechanism derives from the base of its policy's axis, such as `ClipHooks`, and hides the hooks
// that it implements; nothing is virtual. Every mechanism is asked those of `Hooks`, and the axis's
// own where step.hpp, whose numbers are given here, calls them.
#include <ikebana/batch.hpp>
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/grammar/axis_of.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/loss.hpp>
#include <ikebana/model.hpp>
#include <ikebana/report.hpp>
#include <ikebana/state/archive.hpp>
#include <span>

namespace ikebana {

/// The hooks that every mechanism is asked. Up to `prepare` and an optimizer's `update` a hook may
/// throw, and the step is then undone. After it none may, and each is noexcept.
struct Hooks {
  /// Once, when the trainer is made: the device it computes on, and the model's units.
  void attach(c10::Device, const UnitTable&) {}
  /// After all are attached: the master weights, as they are stored from now on.
  void begin(const Masters&) {}
  /// Every allocation and every check of the update, whose gradients are `values / divisor`.
  /// `rate(lr)` is the learning rate of this step for the base learning rate `lr`.
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

struct StepWrapperHooks {
  template <class Next>
  decltype(auto) around_step(Next&& next) {
    return next();
  }
};
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
struct UnitBackwardHooks {
  void before_unit_backward(const Unit&) {}
  void after_unit_backward(const Unit&) {}
};
/// 4, 8, 12. What a unit computes with (parameters/): `gather` turns master weights into gathered
/// parameters, `reduce` the gradients of gathered parameters into those of master weights. A
/// mechanism that overrides `gather` moves parameters. Every unit must then be run by `run` in each
/// step, unless its policy has a field `allow_unused_units` that is true.
struct GatherHooks {
  /// True for one that overrides `gather` and whose gathered parameters stay between steps.
  static constexpr bool keeps_gathered = false;
  Tensors gather(const Unit&, Tensors masters) { return masters; }
  Tensors reduce(const Unit&, Tensors gradients) { return gradients; }
};
/// 4. And what is stored: `to_masters` turns full parameters into master weights.
struct StorageHooks : GatherHooks {
  Tensors to_masters(const Unit&, Tensors full) { return full; }
};

// The base of each axis, outermost first.

struct ObserveHooks : Hooks, StepWrapperHooks, UnitWrapperHooks, UnitBackwardHooks {
  template <class Next>
  decltype(auto) around_phase(Phase, Next&& next) {
    return next();
  }
};
struct CaptureHooks : Hooks, StepWrapperHooks {};
struct ShardHooks : Hooks, UnitWrapperHooks, UnitBackwardHooks, StorageHooks {
  // 2, 9, 10. Sums over ranks. With one rank they are the values themselves.
  std::int64_t ranks() const { return 1; }
  Count sum(const Count& count) { return count; }
  at::Tensor sum(const at::Tensor& t) { return t; }
  // 3. Whether the gradients of this microbatch are reduced over ranks. Decided before its forward,
  // since what is attached to the graph depends on it.
  void set_requires_gradient_sync(bool /*is_last*/) {}
};
struct OffloadHooks : Hooks, UnitWrapperHooks, UnitBackwardHooks, StorageHooks {};
struct CheckpointHooks : Hooks, UnitWrapperHooks {
  /// As `around_unit`, around the gathering of the unit's parameters as well.
  template <class Next, class... Args>
  decltype(auto) around_gathered_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }
};
namespace detail {
/// Rejects the update if the loss is not finite: calls `raise`, on a CPU at once, on a device when
/// a later step begins.
template <class Ranks, class Raise>
void accept_finite_loss(StepGradients& gradients, const LossValue& loss, Ranks& ranks,
                        DeferredCheck& deferred, const Raise& raise) {
  if (loss.readable() && ranks.ranks() == 1) return loss.is_finite() ? void() : raise();
  at::Tensor flag = ranks.sum(loss.non_finite()).clamp_max(1);
  gradients.reject(flag);
  deferred.expect_zero(flag, raise);
}
}  // namespace detail

struct PrecisionHooks : Hooks, StepWrapperHooks, UnitWrapperHooks, StorageHooks {
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    return next();
  }
  // May also have `Tensors restore_dtype(const Unit&, Tensors masters)`: master weights in the
  // dtype that the parameters had before, for when the trainer releases them. And `void
  // refresh(const Unit&, const Tensors& masters)`: writes new values to the memory of the last
  // gather, without an allocation; otherwise `gather` is asked after each update.

  /// How updates are written. Asked once, after `attach`.
  UpdateRounding* rounding() { return nullptr; }
  /// 7. The gradient that backward starts with.
  at::Tensor scale(const at::Tensor& seed) { return seed; }
  void unscale(StepGradients&) {}  // 9
  /// 10. Rejects an update that must not be made (`StepGradients::reject`), or throws. The default:
  /// where the loss is not finite.
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks& ranks,
              detail::DeferredCheck& deferred) {
    detail::accept_finite_loss(gradients, loss, ranks, deferred, [] {
      throw NonFinite(
          "step: the loss is not finite; nothing was updated. Lower the learning rate, "
          "or look for an invalid value in the batch.");
    });
  }
};
struct PruneHooks : Hooks, GatherHooks {};
struct QuantizeHooks : Hooks, UnitWrapperHooks, GatherHooks {};
struct AccumulateHooks : Hooks {
  template <class Batch>
  auto split(const Batch& batch) {  // 1
    return std::span<const Batch>(&batch, 1);
  }
};
/// 5. Each objective defines `Loss loss(run, model, batch)`, and may define `count(model, batch)`.
struct ObjectiveHooks : Hooks {};
struct ClipHooks : Hooks {
  /// False: before each of its hooks the gradients are divided by `divisor`, in one more pass, so
  /// that `values` are the true gradients. True for a mechanism that reads `divisor` itself.
  static constexpr bool takes_divisor = false;
  /// 9. Changes `gradients.values`, or what they are divided by (`StepGradients::divide`).
  template <class Ranks>
  void clip(StepGradients&, Ranks&) {}
  /// 10. Rejects an update that must not be made (`StepGradients::reject`), or throws.
  template <class Ranks>
  void accept(StepGradients&, const LossValue&, Ranks&, detail::DeferredCheck&) {}
};
struct OptimizerHooks : Hooks {
  double base_lr() const { return 0; }
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
struct ScheduleHooks : Hooks {
  double rate(double base, std::int64_t /*step*/) const { return base; }
};
struct AverageHooks : Hooks {
  /// Which weights are evaluated. `next()` computes with the master weights as they are then. A
  /// mechanism that changes them calls `parameters.refresh_gathered()`, and restores them.
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters&, Next&& next) {
    return next();
  }
  /// The weights were replaced, as by `load_weights`: the average starts anew from them. An average
  /// that does not override it refuses such a call.
  void restart() noexcept {}
};
struct FreezeHooks : Hooks {
  /// Before all others, when the trainer is made. Parameters that then require no gradient are
  /// never trained.
  void freeze(const UnitTable&) {}
};
struct DeviceHooks : Hooks {
  /// 1. Moves the batch to the model's device.
  template <class Batch>
  Batch place(const Batch& batch, c10::Device device) {
    return detail::moved(batch, device);
  }
};

namespace detail {

// clang-format off
template <class Axis> struct hooks_of { using type = Hooks; };
template <> struct hooks_of<axis::observe> { using type = ObserveHooks; };
template <> struct hooks_of<axis::capture> { using type = CaptureHooks; };
template <> struct hooks_of<axis::shard> { using type = ShardHooks; };
template <> struct hooks_of<axis::offload> { using type = OffloadHooks; };
template <> struct hooks_of<axis::checkpoint> { using type = CheckpointHooks; };
template <> struct hooks_of<axis::precision> { using type = PrecisionHooks; };
template <> struct hooks_of<axis::prune> { using type = PruneHooks; };
template <> struct hooks_of<axis::quantize> { using type = QuantizeHooks; };
template <> struct hooks_of<axis::accumulate> { using type = AccumulateHooks; };
template <> struct hooks_of<axis::objective> { using type = ObjectiveHooks; };
template <> struct hooks_of<axis::clip> { using type = ClipHooks; };
template <> struct hooks_of<axis::optimizer> { using type = OptimizerHooks; };
template <> struct hooks_of<axis::schedule> { using type = ScheduleHooks; };
template <> struct hooks_of<axis::average> { using type = AverageHooks; };
template <> struct hooks_of<axis::freeze> { using type = FreezeHooks; };
template <> struct hooks_of<axis::device> { using type = DeviceHooks; };
// clang-format on

}  // namespace detail

/// The base of the mechanisms of an axis: `HooksOf<axis::clip>` is `ClipHooks`.
template <class Axis>
using HooksOf = typename detail::hooks_of<Axis>::type;

}  // namespace ikebana
