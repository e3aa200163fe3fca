#pragma once
// The engine's hooks: a step calls them on mechanisms of the library's own policies. A policy of a
// user's own seldom needs one. Each base has the hooks of one axis and is a base of the axis's
// public one in hooks.hpp; the numbers are the steps of step.hpp.
#include <exception>
#include <ikebana/hooks/common.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <optional>
#include <span>

namespace ikebana::detail {

/// The engine's hooks on the axis shard. By them ranks exchange what they tell each other in a
/// step: when it opens, when its gradients are there, and before the commit.
struct ShardEngineHooks {
  /// Before the first exchange of a step or an evaluation: after a failure the ranks meet again.
  void open_step() {}
  /// 3. Says before the forward of a microbatch whether its gradients are reduced over ranks.
  void set_requires_gradient_sync(bool /*is_last*/) {}
  /// Once, if the trainer was given a maker: `maker()` makes the model and returns it.
  template <class Maker>
  auto make_model(Maker&& maker) {
    return maker();
  }
  /// Once for each unit, when the trainer is made: returns its whole parameters, as rank 0 has
  /// them.
  Tensors full_parameters(const Unit& unit) { return detached(unit.parameters); }
  /// 4. Begins a forward of a recipe whose units are gathered while they compute. Ranks that gather
  /// together must call the same.
  void begin_forward(bool /*trains*/) {}
  void begin_unit(const Unit&) {}  ///< Is called before a unit is gathered and run.
  void end_forward() {}            ///< Is called after the forward.
  /// 8. Returns the rows of a parameter that this rank stores, of `count`.
  RowRange stored_rows(const Unit&, std::size_t /*parameter*/, std::int64_t count) const {
    return {0, count};
  }
  /// Is called once, when the trainer is made, with the dtypes in which a unit's gradients are
  /// summed over ranks.
  void set_reduce_dtypes(const Unit&, const DTypes&) {}
  // The next hook has no default, because a mechanism that has it is treated in another way.
  /// 4. Is called instead of `to_masters` if gathered parameters are kept and no other mechanism
  /// moves parameters: the master weights may be rows of `full`, which `gather` completes.
  // Tensors to_masters_in_place(const Unit&, Tensors full);

  /// Says whether a unit is released after its forward, and gathered again for its backward.
  /// Without a value all units are but the last, whose backward comes first.
  std::optional<bool> reshard_after_forward() const { return {}; }
  /// Says whether the next unit of a forward is gathered ahead.
  bool forward_prefetch() const { return true; }
  bool backward_prefetch() const { return true; }  ///< Says the same of a backward.
  /// 9. After the last backward: waits for reductions that are on their way, so that the gradients
  /// of all master weights are there.
  void finish_reductions(const Masters&) {}
  /// After an exception of this rank, which ends its step or evaluation, this tells the other
  /// ranks, whose calls throw from then on until all have opened again. It may be called twice.
  void offer_exception(const std::exception_ptr&) noexcept {}
  /// After a failure all ranks meet again, for what they exchange before the step opens.
  void meet_again() {}
  /// If it is given true, this rank makes again what runs out of memory from now on, if all ranks
  /// do.
  void set_repeats(bool) noexcept {}
  /// Returns after an exception whether the first rank that failed ran out of memory in what it
  /// makes again, and false if the ranks cannot know. All ranks must return the same.
  bool ran_out_of_memory() noexcept { return false; }
};

/// The engine's hooks on the axis capture.
struct CaptureEngineHooks {
  /// 4. `next(microbatch)` computes the loss of a microbatch that is trained on.
  template <class Core, class Batch, class Next>
  Loss around_microbatch(Core&, const Batch& microbatch, Next&& next) {
    return next(microbatch);
  }
  /// 8. `next()` computes its gradients, from the seeds of `core.step.roots`.
  template <class Core, class Next>
  void around_gradients(Core&, Next&& next) {
    next();
  }
};

/// The engine's hooks on the axis offload.
struct OffloadEngineHooks {
  void begin_step() noexcept {}  ///< Is called before a step gathers anything.
  /// 5. Surrounds the loss of a microbatch.
  template <class Batch, class Next>
  decltype(auto) around_loss(const Batch&, Next&& next) {
    return next();
  }
  /// 9. After Shard's `finish_reductions`: the gradients of all master weights are there.
  void finish_gradients(const Masters&) {}
  // The next hooks have no default, because a mechanism that has one of them is treated in another
  // way.
  // bool refresh(const Unit&, const Tensors& masters);  // like precision's; false: it wrote
  // nothing
  /// 12. Waits until the new values of a unit that `refresh` writes are there.
  // void await_refresh(const Unit&);

  /// Returns where the state of optimizers is stored. Is called once, after `attach`.
  StateStorage* state_storage() { return nullptr; }
  /// Returns where Shard puts the gradients that it has summed. Is called once, after `attach`.
  GradientStorage* gradient_storage() { return nullptr; }
};

/// The engine's hooks on the axis checkpoint.
struct CheckpointEngineHooks {
  /// 2. Before the first forward: returns what holds for the microbatches of this rank, as bits,
  /// such as which of the plans that were made so far. All ranks go on with what holds for each.
  template <class Microbatches>
  std::uint64_t usable_plans(const Microbatches&) {
    return 0;
  }
  /// 2. Given what holds for the microbatches of all ranks: chooses a plan, makes another, or
  /// throws.
  template <class Core>
  void begin_plan(Core&, std::uint64_t /*usable*/) {}
  /// Surrounds a unit as `around_unit` does, and surrounds the gathering of its parameters as well.
  template <class Next, class... Args>
  decltype(auto) around_gathered_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }
};

/// The engine's hooks on the axis precision.
struct PrecisionEngineHooks {
  /// 8. Surrounds each backward of a microbatch.
  template <class Next>
  decltype(auto) around_backward(Next&& next) {
    return next();
  }
  // The next hooks have no default, because a mechanism that has one of them is treated in another
  // way.
  /// 4. Returns, in place of `gather`, master weights in the dtype that the parameters had before,
  /// for the time when the trainer releases them.
  // Tensors restore_dtype(const Unit&, Tensors masters);
  /// 12. Writes new values to the memory of the last gather, without an allocation. Without it
  /// `gather` is asked at the next use.
  // void refresh(const Unit&, const Tensors& masters);

  /// 8. Returns the dtype in which the gradient of a parameter of this dtype is summed over ranks.
  at::ScalarType reduce_dtype(at::ScalarType parameter) const { return parameter; }
  /// Returns how updates are written, and null if they are plain. Is called once, after `attach`.
  UpdateRounding* rounding() { return nullptr; }
};

/// The engine's hooks on the axis accumulate.
struct AccumulateEngineHooks {
  /// Declared true by a mechanism that may make a step again with more microbatches: it is then
  /// asked to split each batch of a range, too.
  static constexpr bool fits_memory = false;
  /// Surrounds what an evaluation computes of one batch, which is on the device, or null if only
  /// other ranks have one: `next(parts, count)` computes the parts of the batch one by one, and
  /// dummies up to `count`. It may be called again after an exception.
  template <class Core, class Batch, class Next>
  void around_evaluated(Core&, const Batch* batch, Next&& next) {
    return next(std::span<const Batch>(batch, batch != nullptr ? 1 : 0), std::size_t(1));
  }
};

/// The engine's hooks on the axis optimizer.
struct OptimizerEngineHooks {
  /// Declared true by one that updates parameters as their gradients arrive.
  static constexpr bool updates_in_backward = false;
  /// 7. Is called before gradients arrive.
  template <class Rate>
  void before_backward(const LossValue&, std::size_t /*microbatches*/, const Rate&) {}
  /// Returns whether it has updated parameters as their gradients arrived.
  bool has_updated() const { return false; }
};

}  // namespace ikebana::detail
