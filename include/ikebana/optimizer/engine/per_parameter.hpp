#pragma once
// The base of optimizers for which LibTorch has no fused operator. They update one parameter after
// the other, and do what fused operators do inside: divide the gradient, and change nothing if the
// step is rejected.
#include <ikebana/optimizer/engine/grouped.hpp>
#include <ikebana/optimizer/engine/parameter_updates.hpp>

namespace ikebana::detail {

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
  void abort() noexcept { this->abort_updates(); }

 protected:
  /// As `prepare_buckets`. `scratch_bytes(parameter, gradient)` is the scratch of one update.
  void prepare_each(const Masters& masters, const StepGradients& gradients, const RateRef& rate,
                    std::size_t state_slots, ScratchBytes scratch_bytes,
                    ConvertGradient convert = dense_gradient) {
    this->prepare_buckets(masters, gradients, rate, state_slots, convert);
    this->reserve_scratch(scratch_bytes);
  }
  /// For parameters that are cut: calls `apply(parameters)` once, with all that have a gradient, in
  /// the order of masters, so that each of the ranks exchanges the same numbers (CutParameter).
  /// Whatever fails is put back from copies. One exchange, before anything changes.
  void update_cut(const StepGradients& gradients,
                  c10::function_ref<void(std::vector<CutParameter>&)> apply) {
    this->update_cut_of(this->fields(), gradients, apply);
  }
};

}  // namespace ikebana::detail
