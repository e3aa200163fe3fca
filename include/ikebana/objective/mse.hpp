#pragma once
// Defines the policy MSELoss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum of squared differences between the output and a target of the same shape. Counts elements,
/// as PyTorch's mean does. The batch has the fields that CrossEntropyLoss takes. Throws BadBatch if
/// the shapes differ or the target is of integers. Source: torch.nn.MSELoss.
struct MSELoss {
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <>
struct Mechanism<MSELoss> : detail::OutputAndTarget<MSELoss> {
  using detail::OutputAndTarget<MSELoss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/mse.ipp>
#endif
