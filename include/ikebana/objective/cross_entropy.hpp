#pragma once
// The policy CrossEntropyLoss and its mechanism.
#include <ikebana/objective/class_target.hpp>

namespace ikebana {

/// Sum of the cross entropy between logits (N, C, ...) and class indices (N, ...), or class
/// probabilities of the logits' shape. Counts the targets that are not `ignore_index`, each with
/// the `weight` of its class. Logits of language models, (N, length, C), take `class_dim` -1, which
/// costs no copy where they are contiguous. The batch's fields are `input` and `target` (or data,
/// x; y, label; or a pair). With `outputs` the report has the logits; `evaluate` always has them.
/// Throws BadBatch if the shapes do not fit, BadValue for a `class_dim` that does not exist.
/// Source: torch.nn.CrossEntropyLoss.
struct CrossEntropyLoss {
  std::int64_t ignore_index = -100;  ///< targets of this value cost and count nothing
  double label_smoothing = 0;        ///< share of a target spread over all classes, 0 to 1
  at::Tensor weight = {};            ///< (C) factor of each class, or undefined: 1
  std::int64_t class_dim = 1;        ///< the output's dimension of classes; -1: the last
  bool outputs = false;              ///< whether the report has the model's outputs
};

template <std::same_as<CrossEntropyLoss> Policy>
struct Mechanism<Policy> : detail::ClassTarget<CrossEntropyLoss> {
  explicit Mechanism(CrossEntropyLoss v) : ClassTarget(std::move(v)) { check(); }

  at::Tensor sum(const at::Tensor& output, const at::Tensor& given) {
    check();
    const auto [logits, target] = classes_second(output, given);
    return at::cross_entropy_loss(logits, target, weight(output), at::Reduction::Sum,
                                  values.ignore_index, values.label_smoothing);
  }
  /// What at::cross_entropy_loss calls.
  Loss counted_sum(const at::Tensor& output, const at::Tensor& given) {
    if (values.label_smoothing != 0) return {};
    return this->counted_nll(output, given, [](const at::Tensor& logits) {
      return at::log_softmax(logits, 1, logits.scalar_type());
    });
  }
  std::string describe() const {
    return "ignore_index=" + std::to_string(values.ignore_index) +
           ", label_smoothing=" + c10::str(values.label_smoothing) +
           (values.class_dim == 1 ? "" : ", class_dim=" + std::to_string(values.class_dim));
  }

 private:
  void check() const {
    if (!(values.label_smoothing >= 0 && values.label_smoothing <= 1))
      throw BadValue("CrossEntropyLoss: label_smoothing is " + c10::str(values.label_smoothing) +
                     "; it must lie between 0 and 1.");
  }
};

}  // namespace ikebana
