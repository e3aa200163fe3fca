#pragma once
// Defines the policy NLLLoss and its mechanism.
#include <ikebana/objective/class_target.hpp>

namespace ikebana {

/// Sum of the negative log-probability of class indices (N, ...). The output holds
/// log-probabilities (N, C, ...), as a LogSoftmax returns. Counts, `class_dim` and the batch's
/// fields are as for CrossEntropyLoss. Throws BadBatch if shapes or dtypes do not fit, BadValue for
/// a `class_dim` that does not exist. Source: torch.nn.NLLLoss.
struct NLLLoss {
  std::int64_t ignore_index = -100;  ///< targets of this value cost and count nothing
  at::Tensor weight = {};            ///< (C) factor of each class, or undefined: 1
  std::int64_t class_dim = 1;        ///< the output's dimension of classes; -1: the last
  bool outputs = false;              ///< whether the report has the model's outputs
};

template <>
struct Mechanism<NLLLoss> : detail::ClassTarget<NLLLoss> {
  using detail::ClassTarget<NLLLoss>::ClassTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& given);
  Loss counted_sum(const at::Tensor& output, const at::Tensor& given);
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/nll.ipp>
#endif
