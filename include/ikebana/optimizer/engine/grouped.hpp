#pragma once
// The base of all optimizers: parameters in buckets by group, device and dtype; state made at the
// first gradient, saved and restored, and put back where a step fails.
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/optimizer/engine/optimizer_values.hpp>
#include <ikebana/optimizer/engine/parameter_buckets.hpp>

namespace ikebana::detail {

/// Passes the policy's values to `Buckets`, which do the work.
template <class Policy, class Buckets = ParameterBuckets>
class GroupedOptimizer : public OptimizerValues<Policy>, protected Buckets {
 public:
  using carries_out = Policy;
  static constexpr bool takes_divisor = true;
  using OptimizerValues<Policy>::values;
  /// The first `used` slots are those of the values that it is made with: all, if left out.
  GroupedOptimizer(Policy v, std::vector<Slot> state_slots, std::optional<std::size_t> used = {})
      : OptimizerValues<Policy>(std::move(v)), Buckets(std::move(state_slots), used) {}

  /// `is_updated(i)`: true if this optimizer updates master `i`, false if another one does.
  void begin(const Masters& masters,
             c10::function_ref<bool(std::size_t)> is_updated = EveryMaster()) {
    this->begin_buckets(values.groups, masters, is_updated);
  }
  /// Puts back what a failed step changed. State that it made is freed.
  void abort() noexcept { this->abort_buckets(); }
  void end_step(const StepGradients&, Report&) noexcept { this->end_step_of_buckets(); }
  /// From now on `abort` also undoes updates that have ended: others may fail after them.
  void keep_copies() noexcept { this->keep_copies_of_buckets(); }
  template <class Visit>
  void each_number(const Visit& visit) const {
    this->each_lr([&](const at::Tensor& lr) { visit(lr); });
  }
  void set_numbers(const RateRef& rate) {
    this->set_numbers_of_buckets(this->policy_values(), rate);
  }

 protected:
  using OptimizerValues<Policy>::check, OptimizerValues<Policy>::decays;

  /// Sorts masters into buckets if they changed since the last step, makes missing state of the
  /// first `slots` slots, and sets the buckets' gradients to `convert(gradient, parameter, name)`.
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const RateRef& rate,
                       std::size_t state_slots, ConvertGradient convert = dense_gradient) {
    this->prepare_with(this->policy_values(), rate, this->rate_is_number_, masters, gradients,
                       state_slots, convert);
  }
  /// Saves or loads lr, weight_decay, groups, step counts and the first `state_slots` slots.
  void save(Archive& archive, const Masters& masters, std::size_t state_slots) {
    double* weight_decay = nullptr;
    if constexpr (decays) weight_decay = &values.weight_decay;
    this->save_buckets(archive, masters, state_slots, values.lr, weight_decay, values.groups);
  }
};

}  // namespace ikebana::detail
