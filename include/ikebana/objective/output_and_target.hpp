#pragma once
// Defines the base of the objectives that compare the model's output with the batch's target.
#include <ikebana/detail/text.hpp>
#include <ikebana/objective/forward.hpp>

namespace ikebana::detail {

/// Returns the target as one tensor. Throws BadBatch if it is undefined.
template <class Policy, class Batch>
const at::Tensor& target_tensor(const Batch& batch) {
  const at::Tensor& target = joined(target_of(batch));
  if (!target.defined())
    throw BadBatch(type_name<Policy>() +
                   ": the target is undefined. Give the batch a tensor of targets.");
  return target;
}

/// `Mechanism<Policy>` derives from it and defines `at::Tensor sum(output, target)`, the
/// differentiable sum over all elements; it may hide `count`, which counts elements, as PyTorch's
/// mean does. `counted_sum(output, target)`, if it has that, returns both, or an empty Loss if they
/// are computed one by one. The joined rows of a Ragged are compared: output and target must then
/// have the same lengths.
template <class Policy>
struct OutputAndTarget : ObjectiveHooks {
  using carries_out = Policy;
  Policy values;
  explicit OutputAndTarget(Policy v) : values(std::move(v)) {}

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    return forward_refusal<Run, Model, Batch>();
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    auto& own = static_cast<Mechanism<Policy>&>(*this);
    const auto result = run(model, input_of(batch));
    if constexpr (requires { result.lengths(), target_of(batch).lengths(); })
      check_same_lengths(type_name<Policy>(), result, target_of(batch));
    const at::Tensor& output = joined(result);
    const at::Tensor& target = target_tensor<Policy>(batch);
    const at::Tensor outputs = values.outputs || run.evaluating ? output : at::Tensor();
    if constexpr (requires { own.counted_sum(output, output); }) {
      const Loss both = run.evaluating ? Loss() : own.counted_sum(output, target);
      if (both.sum.defined()) return {both.sum, both.count, outputs};
    }
    at::Tensor sum = own.sum(output, target);
    return {sum, own.count(model, batch), outputs};
  }
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    return target_tensor<Policy>(batch).numel();
  }
};

}  // namespace ikebana::detail
