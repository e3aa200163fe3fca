#pragma once
// The policy L1Loss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum of absolute differences between the output and a target of the same shape. Counts elements,
/// as PyTorch's mean does. The batch's fields are those of CrossEntropyLoss. Throws BadBatch if the
/// shapes differ or the target is of integers. Source: torch.nn.L1Loss.
struct L1Loss {
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <std::same_as<L1Loss> Policy>
struct Mechanism<Policy> : detail::OutputAndTarget<L1Loss> {
  using detail::OutputAndTarget<L1Loss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const {
    detail::check_numbers("L1Loss", output, target);
    return at::l1_loss(output, target, at::Reduction::Sum);
  }
};

}  // namespace ikebana
