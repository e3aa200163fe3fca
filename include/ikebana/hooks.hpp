#pragma once
// Every point of a step at which mechanisms are asked, with the answer of one that has nothing to
// say. The order of the calls is step.hpp. A Mechanism hides what it answers otherwise; nothing is
// virtual.
#include <ikebana/batch.hpp>
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/fit/epoch.hpp>
#include <ikebana/grammar/vocabulary.hpp>
#include <ikebana/loss.hpp>
#include <ikebana/model.hpp>
#include <ikebana/parameters/gradients.hpp>
#include <ikebana/report.hpp>
#include <ikebana/state/archive.hpp>
#include <span>
#include <string>
#include <vector>

namespace ikebana {

/// Where the time of a step goes.
enum class Phase { Data, Forward, Backward, Optimizer };
using Tensors = std::vector<at::Tensor>;

/// How an update is written to BF16 masters: it is computed in FP32, one master at a time.
struct UpdateRounding {
  virtual ~UpdateRounding() = default;
  /// Before the update: there are masters of up to `most` elements. May throw.
  virtual void prepare_rounding(const at::TensorOptions& exact, std::int64_t most) = 0;
  /// Writes `exact` to the master of that index; both in memory order, one dimension.
  virtual void write(const at::Tensor& master, const at::Tensor& exact,
                     std::size_t index) noexcept = 0;
};

/// What an update needs besides gradients: which masters rest where, under which names.
struct Masters {
  std::vector<std::string> names;
  Tensors values;                ///< leaves; the optimizer updates them in place
  UpdateRounding* rounding = nullptr;  ///< null: updates are computed and written in the masters' type
  std::size_t first = 0;         ///< where the first of these stands among the trainer's masters
};

/// The hooks of a step. Up to `prepare` a hook may throw: the step is then undone. From `update` on
/// none may, and each is noexcept.
struct Hooks {
  /// True for a mechanism that works in `around_unit`: it is an error when no unit is ever run.
  static constexpr bool per_unit = false;
  /// True for one that overrides `gather` and whose working copies are to stay between steps.
  static constexpr bool keeps_gathered = false;

  /// Freeze: before all others, when the trainer is made. What then requires no gradient is never
  /// trained.
  void freeze(const UnitTable&) {}
  /// When the trainer is made, once: the device it computes on, and the model's units.
  void attach(c10::Device, const UnitTable&) {}
  /// After all are attached: the masters, where they rest from now on.
  void begin(const Masters&) {}

  // Around things: call `next` exactly once, or again to do it again.
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
  /// `next(args...)` computes the unit. `next` may be copied and called later, with other tensors.
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }

  /// The same around what gathers the unit's parameters, too: checkpoint alone is asked.
  template <class Next, class... Args>
  decltype(auto) around_gathered_unit(const Unit&, Next&& next, Args&&... args) {
    return next(std::forward<Args>(args)...);
  }

  // 1. Device asks for the batch where the model is; accumulate cuts it.
  template <class Batch>
  Batch place(const Batch& batch, c10::Device device) {
    return detail::moved(batch, device);
  }
  template <class Batch>
  auto split(const Batch& batch) {
    return std::span<const Batch>(&batch, 1);
  }
  // 2, 9, 10. Shard: sums over ranks; one rank has them already.
  std::int64_t ranks() const { return 1; }
  Count sum(const Count& count) { return count; }
  at::Tensor sum(const at::Tensor& t) { return t; }
  // 3. Shard: gradients of this microbatch may travel; decided before its forward.
  void set_requires_gradient_sync(bool /*is_last*/) {}

  // 4, 8, 12. Where a parameter rests and what a unit computes with (parameters/). `to_masters` turns
  // full parameters into masters, `gather` masters into fresh working copies, `reduce` the
  // gradients of working copies into those of masters. A mechanism that overrides `gather` moves
  // parameters.
  Tensors to_masters(const Unit&, Tensors full) { return full; }
  // Precision may also have `Tensors restore_dtype(const Unit&, Tensors masters)`: masters in the type
  // that parameters had before, for when the trainer lets go of them.
  Tensors gather(const Unit&, Tensors masters) { return masters; }
  Tensors reduce(const Unit&, Tensors gradients) { return gradients; }
  void before_unit_backward(const Unit&) {}
  void after_unit_backward(const Unit&) {}

  /// Precision: how is an update written? Asked once, after `attach`.
  UpdateRounding* rounding() { return nullptr; }

  // 7. Optimizer: gradients are about to arrive. Does it update as they do?
  template <class Rate>
  void before_backward(const LossValue&, std::size_t /*microbatches*/, const Rate&) {}
  bool has_updated() const { return false; }

  // 7, 9, 10. Precision and clip.
  at::Tensor scale(const at::Tensor& seed) { return seed; }  // what backward starts with
  void unscale(StepGradients&) {}
  template <class Ranks>
  void clip(StepGradients&, Ranks&) {}
  /// Rejects the update (`StepGradients::reject`), or throws, where it must not be made.
  template <class Ranks>
  void accept(StepGradients&, const LossValue&, Ranks&, detail::DeferredCheck&) {}

  // 11. Every allocation and every check of the update; then the update itself. `rate(lr)` is what
  // the schedule makes of a base learning rate in this step.
  double base_lr() const { return 0; }
  double rate(double base, std::int64_t /*step*/) const { return base; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {}
  void update(const Masters&, StepGradients&) noexcept {}
  void after_update(const Masters&, const StepGradients&) noexcept {}
  void end_step(const StepGradients&, Report&) noexcept {}

  // Outside the step.
  /// Average: what is evaluated. `next()` computes with the masters as they are then; whoever
  /// changes them calls `parameters.refresh_gathered()`, and puts them back.
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters&, Next&& next) {
    return next();
  }
  /// `fit`, after each epoch and its validation. May throw.
  void end_epoch(const Epoch&) {}

  /// After an exception: forget what this step did.
  void abort() noexcept {}
  /// The values of the policy as one would write them; empty: nothing to say.
  std::string describe() const { return {}; }
  /// What must survive saving and loading.
  void state(Archive&, const Masters&) {}
};

}  // namespace ikebana
