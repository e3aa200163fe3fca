#pragma once
// Defines the policy KLDivLoss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum of the Kullback-Leibler divergence between log-probabilities (the output) and a target of
/// the same shape: probabilities, or with `log_target` their logarithms. Counts rows, as PyTorch's
/// `reduction="batchmean"`, which gives the divergence if each row is one distribution. PyTorch's
/// default, a mean over elements, is that divided by the elements of a row. The batch has the
/// fields that CrossEntropyLoss takes. Throws BadBatch if shapes or dtypes do not fit. Source:
/// torch.nn.KLDivLoss.
struct KLDivLoss {
  bool log_target = false;  ///< the target is log-probabilities
  bool outputs = false;     ///< whether the report has the model's outputs
};

template <>
struct Mechanism<KLDivLoss> : detail::OutputAndTarget<KLDivLoss> {
  using detail::OutputAndTarget<KLDivLoss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const;
  /// Counts the rows of all samples of a Ragged.
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    const at::Tensor& all = detail::target_tensor<KLDivLoss>(batch);
    using Target = std::decay_t<decltype(detail::target_of(batch))>;
    constexpr bool is_ragged = std::is_same_v<Target, Ragged>;
    constexpr std::int64_t dim = is_ragged ? 0 : batch_dim<Batch>;
    return all.dim() > dim ? all.size(dim) : 1;
  }
  std::string describe() const { return values.log_target ? "log_target" : ""; }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/kl_div.ipp>
#endif
