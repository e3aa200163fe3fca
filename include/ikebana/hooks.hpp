#pragma once
// The hooks: every point of a step at which mechanisms are asked, with a default that does nothing.
// The order of the calls is step.hpp. A Mechanism hides the hooks that it implements; nothing is
// virtual.
#include <ikebana/batch.hpp>
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/grammar/axis_of.hpp>
#include <ikebana/loss.hpp>
#include <ikebana/model.hpp>
#include <ikebana/report.hpp>
#include <ikebana/state/archive.hpp>
#include <span>
#include <string>
#include <vector>

namespace ikebana {

/// Where the time of a step goes.
enum class Phase { Data, Forward, Backward, Optimizer };
using Tensors = std::vector<at::Tensor>;

/// Where the backward pass of one microbatch starts.
struct Roots {
  Tensors sums;   ///< the loss's sums
  Tensors seeds;  ///< the gradient that each of them starts with

  void clear() noexcept { sums.clear(), seeds.clear(); }
};

/// The elements of a gradient; of a sparse one, those of its rows. Shares the gradient's memory.
inline at::Tensor elements_of(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

/// Gradients of the master weights that got one; sparse ones are coalesced. Nothing is multiplied
/// into them: what they are still to be divided by (loss scale, late count, clipping) is collected
/// in `divisor`, and the update divides once.
struct StepGradients {
  std::vector<std::size_t> indices;  ///< of each among the trainer's master weights
  Tensors values;                    ///< in the order of `indices`
  at::Tensor divisor;                ///< one float on the device; undefined: 1
  at::Tensor norm;              ///< of values / divisor, over all ranks; undefined: not asked for
  bool loss_is_scaled = false;  ///< the loss scale handles values that are not finite
  at::Tensor found_inf;         ///< one float, 1: skip the update; undefined: not asked for

  /// Takes the gradients that the last backward left, and forgets everything else.
  void collect(const Tensors& masters) {
    indices.clear(), values.clear();
    divisor.reset(), norm.reset(), found_inf.reset();
    loss_is_scaled = false;
    for (std::size_t i = 0; i < masters.size(); ++i) {
      const at::Tensor& gradient = masters[i].grad();
      if (!gradient.defined()) continue;
      indices.push_back(i);
      values.push_back(gradient.is_sparse() ? gradient.coalesce() : gradient);
    }
  }
  /// From now on the values are to be divided by `d` as well.
  void divide(const at::Tensor& d) { divisor = divisor.defined() ? divisor * d : d; }
  /// Divides the values in place by what they are still to be divided by: then they are the true
  /// gradients.
  void apply_divisor() {
    if (divisor.defined())
      for (const at::Tensor& gradient : values) elements_of(gradient).div_(divisor);
    divisor.reset();
  }
  /// The update is skipped where `flag` (one float) is not 0.
  void reject(const at::Tensor& flag) {
    found_inf = found_inf.defined() ? at::maximum(found_inf, flag) : flag;
  }
};

/// How an update is written to BF16 master weights: it is computed in FP32, one of them at a time.
struct UpdateRounding {
  virtual ~UpdateRounding() = default;
  /// Before the update: the largest master has `max_elements`. May throw.
  virtual void prepare_rounding(const at::TensorOptions& exact, std::int64_t max_elements) = 0;
  /// Writes `exact` to the master of that index. Both are one-dimensional, in memory order.
  virtual void write(const at::Tensor& master, const at::Tensor& exact,
                     std::size_t index) noexcept = 0;
};

/// The master weights, as an update sees them.
struct Masters {
  std::vector<std::string> names;
  Tensors values;                      ///< leaves; the optimizer updates them in place
  UpdateRounding* rounding = nullptr;  ///< null: updates are computed and written in their dtype
  std::size_t first = 0;               ///< index of the first of these among the trainer's
};

/// The hooks of a step. Up to `prepare` a hook may throw, and the step is then undone. From
/// `update` on none may, and each is noexcept.
struct Hooks {
  /// True for a mechanism that works in `around_unit`: a step that runs no unit is then an error.
  static constexpr bool per_unit = false;
  /// True for one that overrides `gather` and whose gathered parameters stay between steps.
  static constexpr bool keeps_gathered = false;

  /// Freeze: before all others, when the trainer is made. Parameters that then require no gradient
  /// are never trained.
  void freeze(const UnitTable&) {}
  /// Once, when the trainer is made: the device it computes on, and the model's units.
  void attach(c10::Device, const UnitTable&) {}
  /// After all are attached: the master weights, as they are stored from now on.
  void begin(const Masters&) {}

  // Wrappers: call `next` exactly once, or once more to do it again.
  template <class Next>
  decltype(auto) around_step(Next&& next) {
    return next();
  }
  template <class Next>
  decltype(auto) around_phase(Phase, Next&& next) {
    return next();
  }
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    return next();
  }
  /// `next(args...)` computes the unit. `next.owned()` is a copy of it that may be called later,
  /// with other tensors.
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }

  /// The same, around the gathering of the unit's parameters as well. Asked of checkpoint alone.
  template <class Next, class... Args>
  decltype(auto) around_gathered_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }

  // 1. Device moves the batch to the model's device; accumulate cuts it into microbatches.
  template <class Batch>
  Batch place(const Batch& batch, c10::Device device) {
    return detail::moved(batch, device);
  }
  template <class Batch>
  auto split(const Batch& batch) {
    return std::span<const Batch>(&batch, 1);
  }
  // 2, 9, 10. Shard: sums over ranks. With one rank they are the values themselves.
  std::int64_t ranks() const { return 1; }
  Count sum(const Count& count) { return count; }
  at::Tensor sum(const at::Tensor& t) { return t; }
  // 3. Shard: whether the gradients of this microbatch are reduced over ranks. Decided before its
  // forward, since what is attached to the graph depends on it.
  void set_requires_gradient_sync(bool /*is_last*/) {}

  // 4, 8, 12. What is stored and what a unit computes with (parameters/). `to_masters` turns full
  // parameters into master weights, `gather` master weights into gathered parameters, `reduce` the
  // gradients of gathered parameters into those of master weights. A mechanism that overrides
  // `gather` moves parameters.
  Tensors to_masters(const Unit&, Tensors full) { return full; }
  // Precision may also have `Tensors restore_dtype(const Unit&, Tensors masters)`: master weights
  // in the dtype that the parameters had before, for when the trainer releases them.
  Tensors gather(const Unit&, Tensors masters) { return masters; }
  Tensors reduce(const Unit&, Tensors gradients) { return gradients; }
  void before_unit_backward(const Unit&) {}
  void after_unit_backward(const Unit&) {}

  /// Precision: how updates are written. Asked once, after `attach`.
  UpdateRounding* rounding() { return nullptr; }

  // 7. Optimizer: called before gradients arrive; whether it updates parameters as they do.
  template <class Rate>
  void before_backward(const LossValue&, std::size_t /*microbatches*/, const Rate&) {}
  bool has_updated() const { return false; }

  // 7, 9, 10. Precision and clip.
  at::Tensor scale(const at::Tensor& seed) {
    return seed;
  }  // the gradient that backward starts with
  void unscale(StepGradients&) {}
  template <class Ranks>
  void clip(StepGradients&, Ranks&) {}
  /// Rejects an update that must not be made (`StepGradients::reject`), or throws.
  template <class Ranks>
  void accept(StepGradients&, const LossValue&, Ranks&, detail::DeferredCheck&) {}

  // 11. Every allocation and every check of the update, then the update itself. `rate(lr)` is the
  // learning rate of this step for the base learning rate `lr`.
  double base_lr() const { return 0; }
  double rate(double base, std::int64_t /*step*/) const { return base; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {}
  void update(const Masters&, StepGradients&) noexcept {}
  void after_update(const Masters&, const StepGradients&) noexcept {}
  void end_step(const StepGradients&, Report&) noexcept {}

  // Outside the step.
  /// Average: which weights are evaluated. `next()` computes with the master weights as they are
  /// then. A mechanism that changes them calls `parameters.refresh_gathered()`, and restores them.
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters&, Next&& next) {
    return next();
  }
  /// Called by `fit` after each epoch and its validation. May throw.
  void end_epoch(const Epoch&) {}

  /// After an exception: undo what this step did.
  void abort() noexcept {}
  /// The values of the policy as a user would write them; empty: none.
  std::string describe() const { return {}; }
  /// What is saved and loaded.
  void state(Archive&, const Masters&) {}
};

}  // namespace ikebana
