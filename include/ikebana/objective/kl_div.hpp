#pragma once
// The policy KLDivLoss and its mechanism.
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// Sum of the Kullback-Leibler divergence between log-probabilities (the output) and a target of
/// the same shape: probabilities, or with `log_target` their logarithms. Counts rows, as PyTorch's
/// `reduction="batchmean"`, which gives the divergence if each row is one distribution. PyTorch's
/// default, a mean over elements, is that divided by the elements of a row. The batch's fields are
/// those of CrossEntropyLoss. Throws BadBatch if shapes or dtypes do not fit. Source:
/// torch.nn.KLDivLoss.
struct KLDivLoss {
  bool log_target = false;
  bool outputs = false;
};

template <std::same_as<KLDivLoss> Policy>
struct Mechanism<Policy> : ObjectiveHooks {
  using carries_out = KLDivLoss;
  KLDivLoss values;
  explicit Mechanism(KLDivLoss v) : values(v) {}

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    return detail::forward_refusal<Run, Model, Batch>();
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    at::Tensor output = run(model, detail::input_of(batch));
    const at::Tensor& target = detail::target_of(batch);
    detail::check_probabilities("KLDivLoss", output, target);
    return {at::kl_div(output, target, at::Reduction::Sum, values.log_target), count(model, batch),
            values.outputs || run.evaluating ? output : at::Tensor()};
  }
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    const at::Tensor& target = detail::target_of(batch);
    return target.dim() > batch_dim<Batch> ? target.size(batch_dim<Batch>) : 1;
  }
  std::string describe() const { return values.log_target ? "log_target" : ""; }
};

}  // namespace ikebana
