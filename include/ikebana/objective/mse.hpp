#pragma once
// The policy MSELoss and its mechanism.
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// Sum of squared differences between the output and a target of the same shape. Counts elements,
/// as PyTorch's mean does. The batch's fields are those of CrossEntropyLoss. Throws BadBatch if the
/// shapes differ. Source: torch.nn.MSELoss.
struct MSELoss {
  bool outputs = false;
};

template <std::same_as<MSELoss> Policy>
struct Mechanism<Policy> : ObjectiveHooks {
  using carries_out = MSELoss;
  MSELoss values;
  explicit Mechanism(MSELoss v) : values(v) {}

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    return detail::forward_refusal<Run, Model, Batch>();
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    at::Tensor output = run(model, detail::input_of(batch));
    const at::Tensor& target = detail::target_of(batch);
    detail::check_same_shape("MSELoss", output, target);
    return {at::mse_loss(output, target, at::Reduction::Sum), count(model, batch),
            values.outputs || run.evaluating ? output : at::Tensor()};
  }
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    return detail::target_of(batch).numel();
  }
};

}  // namespace ikebana
