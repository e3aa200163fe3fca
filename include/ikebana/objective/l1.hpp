#pragma once
// Defines the policy L1Loss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum of absolute differences between the output and a target of the same shape. Counts elements,
/// as PyTorch's mean does. The batch has the fields that CrossEntropyLoss takes. Throws BadBatch if
/// the shapes differ or the target is of integers. Source: torch.nn.L1Loss.
struct L1Loss {
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <>
struct Mechanism<L1Loss> : detail::OutputAndTarget<L1Loss> {
  using detail::OutputAndTarget<L1Loss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/l1.ipp>
#endif
