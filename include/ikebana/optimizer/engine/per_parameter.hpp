#pragma once
// The base of optimizers for which LibTorch has no fused operator. They update one parameter after
// the other, and do what fused operators do inside: divide the gradient, and change nothing if the
// step is rejected.
#include <ikebana/optimizer/engine/grouped.hpp>
#include <ikebana/optimizer/engine/parameter_update.hpp>
#include <ikebana/ranks/step_sums.hpp>

namespace ikebana::detail {

/// Returns the bytes of scratch that the update of a parameter uses.
using ScratchBytes =
    c10::function_ref<std::int64_t(const at::Tensor& parameter, const at::Tensor& gradient)>;

/// The part of PerParameterOptimizer that does not depend on the policy.
class ParameterUpdates : public ParameterBuckets {
 public:
  using ParameterBuckets::ParameterBuckets;

 protected:
  /// Returns true if the update uses LibTorch's operators and reads nothing on the host.
  bool on_device(const at::Tensor& p) const { return as_on_device_ || !on_host(p); }
  bool as_on_device_ = false;  ///< for tests: uses the device's implementation on a CPU, too
  bool by_operators_ = false;  ///< the update uses operators, which may fail, on a CPU, too
  bool in_parts_ = false;  ///< updates large parameters one part of their elements after another
  /// `needs_whole_`: an element's update depends on other elements, so slices are refused, unless
  /// `updates_cut_` says that `update_cut` is called if `ranks_` is not null.
  bool needs_whole_ = false, updates_cut_ = false;
  RankGroup* ranks_ = nullptr;  ///< the ranks among which parameters are cut; null: all are whole

  /// Is called by `begin`. `refuse(masters, i)` throws for a slice.
  void check_slices(const Masters& masters, c10::function_ref<bool(std::size_t)> is_updated,
                    const OptimizerFields& of,
                    c10::function_ref<void(const Masters&, std::size_t)> refuse);
  void abort_updates() noexcept;
  void reserve_scratch(ScratchBytes scratch_bytes);
  /// Calls `apply(update)` for each parameter. For buckets that are updated by operators,
  /// `keep(bucket)` first makes room for copies of what will change, by default of all: it is put
  /// back if an operator fails or the device rejects the step.
  void update_each(const StepGradients& gradients, ApplyUpdate apply, KeepCopies keep = keep_whole);
  /// As `update_cut` of PerParameterOptimizer.
  void update_cut_of(const OptimizerFields& of, const StepGradients& gradients,
                     c10::function_ref<void(std::vector<CutParameter>&)> apply);

 private:
  void apply_to_cut(const UpdateScope& scope,
                    c10::function_ref<void(std::vector<CutParameter>&)> apply);
  /// Throws BadModel if another rank has gradients of other parameters: the ranks would exchange
  /// numbers of different parameters.
  void meet_others(const OptimizerFields& of, const StepGradients& gradients);
  static void refuse_window(const OptimizerFields& of, const MasterBucket& bucket);
  void check_cut(const OptimizerFields& of, const Masters& masters, std::size_t i) const;
  bool may_fail(const at::Tensor& p) const { return by_operators_ || on_device(p); }

  Scratch scratch_;
};

/// The base of an optimizer that updates one parameter after the other, as `GroupedOptimizer` does
/// otherwise: `prepare` calls `prepare_each`, and `update` calls `update_each(gradients, f)`, which
/// calls `f(update)` with a ParameterUpdate, or, over slices, `update_cut`. A derived mechanism
/// sets `by_operators_` in its constructor if `f` uses operators, which may throw.
template <class Policy>
class PerParameterOptimizer : public GroupedOptimizer<Policy, ParameterUpdates> {
 public:
  using GroupedOptimizer<Policy, ParameterUpdates>::GroupedOptimizer;

  /// Throws BadValue for a slice that this optimizer cannot update.
  void begin(const Masters& masters,
             c10::function_ref<bool(std::size_t)> is_updated = EveryMaster()) {
    this->check_slices(masters, is_updated, this->fields(), refuse_slice<Policy>);
    this->begin_buckets(this->values.groups, masters, is_updated);
  }
  /// Puts back what a failed step changed. State that it made is freed.
  void abort() noexcept { this->abort_updates(); }

 protected:
  /// Does what `prepare_buckets` does. `scratch_bytes(parameter, gradient)` returns the scratch of
  /// one update.
  void prepare_each(const Masters& masters, const StepGradients& gradients, const RateRef& rate,
                    std::size_t state_slots, ScratchBytes scratch_bytes,
                    ConvertGradient convert = dense_gradient) {
    this->prepare_buckets(masters, gradients, rate, state_slots, convert);
    this->reserve_scratch(scratch_bytes);
  }
  /// Updates parameters that are cut: calls `apply(parameters)` once, with all that have a
  /// gradient, in the order of masters, so that all ranks exchange the same numbers (CutParameter).
  /// Copies undo an update that fails. Makes one exchange before anything changes.
  void update_cut(const StepGradients& gradients,
                  c10::function_ref<void(std::vector<CutParameter>&)> apply) {
    this->update_cut_of(this->fields(), gradients, apply);
  }
};

}  // namespace ikebana::detail

namespace ikebana {
using detail::PerParameterOptimizer;
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/per_parameter.ipp>
#endif
