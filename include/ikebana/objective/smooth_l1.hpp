#pragma once
// The policy SmoothL1Loss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum over the differences d between the output and a target of the same shape: d^2 / (2 `beta`)
/// where |d| is below `beta`, else |d| - `beta` / 2. Counts elements, as PyTorch's mean does. The
/// batch's fields are those of CrossEntropyLoss. Throws BadBatch if the shapes differ or the target
/// is of integers, BadValue for a negative `beta`. Source: torch.nn.SmoothL1Loss.
struct SmoothL1Loss {
  double beta = 1;       ///< where the loss becomes linear, 0 or more
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <std::same_as<SmoothL1Loss> Policy>
struct Mechanism<Policy> : detail::OutputAndTarget<SmoothL1Loss> {
  explicit Mechanism(SmoothL1Loss v) : OutputAndTarget(v) { check(); }

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const {
    check();
    detail::check_numbers("SmoothL1Loss", output, target);
    return at::smooth_l1_loss(output, target, at::Reduction::Sum, values.beta);
  }
  std::string describe() const { return "beta=" + c10::str(values.beta); }

 private:
  void check() const {
    if (!(values.beta >= 0 && std::isfinite(values.beta)))
      throw BadValue("SmoothL1Loss: beta is " + c10::str(values.beta) +
                     "; it must be 0 or more, and finite.");
  }
};

}  // namespace ikebana
