#pragma once
// Defines the policy CrossEntropyLoss and its mechanism.
#include <ikebana/objective/class_target.hpp>

namespace ikebana {

/// Sum of the cross entropy between logits (N, C, ...) and class indices (N, ...), or class
/// probabilities of the logits' shape. Counts the targets that are not `ignore_index`, each with
/// the `weight` of its class. Logits of language models, (N, length, C), take `class_dim` -1, which
/// costs no copy if they are contiguous. The batch's fields are `input` and `target` (or data, x;
/// y, label; or a pair). With `outputs` the report has the logits; `evaluate` always has them.
/// Throws BadBatch if the shapes do not fit, BadValue for a `class_dim` that does not exist.
/// Source: torch.nn.CrossEntropyLoss.
struct CrossEntropyLoss {
  std::int64_t ignore_index = -100;  ///< targets of this value cost and count nothing
  double label_smoothing = 0;        ///< the share of a target that is spread over all classes, 0
                                     ///< to 1
  at::Tensor weight = {};            ///< (C) factor of each class, or undefined: 1
  std::int64_t class_dim = 1;        ///< the output's dimension of classes; -1: the last
  bool outputs = false;              ///< whether the report has the model's outputs
};

template <>
struct Mechanism<CrossEntropyLoss> : detail::ClassTarget<CrossEntropyLoss> {
  explicit Mechanism(CrossEntropyLoss v) : ClassTarget(std::move(v)) { check(); }

  at::Tensor sum(const at::Tensor& output, const at::Tensor& given);
  /// Calls the operators of at::cross_entropy_loss.
  Loss counted_sum(const at::Tensor& output, const at::Tensor& given);
  std::string describe() const;

 private:
  void check() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/cross_entropy.ipp>
#endif
