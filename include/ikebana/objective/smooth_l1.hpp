#pragma once
// Defines the policy SmoothL1Loss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum over the differences d between the output and a target of the same shape: d^2 / (2 `beta`)
/// if |d| is below `beta`, else |d| - `beta` / 2. Counts elements, as PyTorch's mean does. The
/// batch has the fields that CrossEntropyLoss takes. Throws BadBatch if the shapes differ or the
/// target is of integers, BadValue for a negative `beta`. Source: torch.nn.SmoothL1Loss.
struct SmoothL1Loss {
  double beta = 1;       ///< |d| from which the loss is linear, 0 or more
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <>
struct Mechanism<SmoothL1Loss> : detail::OutputAndTarget<SmoothL1Loss> {
  explicit Mechanism(SmoothL1Loss v) : OutputAndTarget(v) { check(); }

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const;
  std::string describe() const { return "beta=" + c10::str(values.beta); }

 private:
  void check() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/smooth_l1.ipp>
#endif
