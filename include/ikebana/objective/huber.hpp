#pragma once
// Defines the policy HuberLoss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum over the differences d between the output and a target of the same shape: d^2 / 2 if |d| is
/// at most `delta`, else `delta` * (|d| - `delta` / 2). Counts elements, as PyTorch's mean does.
/// The batch has the fields that CrossEntropyLoss takes. Throws BadBatch if the shapes differ or
/// the target is of integers, BadValue for a `delta` that is not above 0. Source:
/// torch.nn.HuberLoss.
struct HuberLoss {
  double delta = 1;      ///< |d| from which the loss is linear, above 0
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <>
struct Mechanism<HuberLoss> : detail::OutputAndTarget<HuberLoss> {
  explicit Mechanism(HuberLoss v) : OutputAndTarget(v) { check(); }

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const;
  std::string describe() const { return "delta=" + c10::str(values.delta); }

 private:
  void check() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/huber.ipp>
#endif
