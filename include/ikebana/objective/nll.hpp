#pragma once
// The policy NLLLoss and its mechanism.
#include <ikebana/objective/class_target.hpp>

namespace ikebana {

/// Sum of the negative log-probability of class indices (N, ...), where the output holds
/// log-probabilities (N, C, ...), as of a LogSoftmax. Counts, `class_dim` and the batch's fields
/// are as for CrossEntropyLoss. Throws BadBatch if shapes or dtypes do not fit, BadValue for a
/// `class_dim` that does not exist. Source: torch.nn.NLLLoss.
struct NLLLoss {
  std::int64_t ignore_index = -100;  ///< targets of this value cost and count nothing
  at::Tensor weight = {};            ///< (C) factor of each class, or undefined: 1
  std::int64_t class_dim = 1;        ///< the output's dimension of classes; -1: the last
  bool outputs = false;              ///< whether the report has the model's outputs
};

template <std::same_as<NLLLoss> Policy>
struct Mechanism<Policy> : detail::ClassTarget<NLLLoss> {
  using detail::ClassTarget<NLLLoss>::ClassTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& given) {
    if (given.is_floating_point())
      throw BadBatch("NLLLoss: the target is " + std::string(c10::toString(given.scalar_type())) +
                     "; it must hold class indices: target.to(torch::kLong). For probabilities use "
                     "CrossEntropyLoss on logits, or KLDivLoss.");
    const auto [log_probabilities, target] = classes_second(output, given);
    return at::nll_loss_nd(log_probabilities, target, weight(output), at::Reduction::Sum,
                           values.ignore_index);
  }
  Loss counted_sum(const at::Tensor& output, const at::Tensor& given) {
    return this->counted_nll(output, given, [](const at::Tensor& logs) { return logs; });
  }
  std::string describe() const {
    return "ignore_index=" + std::to_string(values.ignore_index) +
           (values.class_dim == 1 ? "" : ", class_dim=" + std::to_string(values.class_dim));
  }
};

}  // namespace ikebana
