#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/nll.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<NLLLoss>::sum(const at::Tensor& output,
                                                  const at::Tensor& given) {
  if (given.is_floating_point())
    throw BadBatch("NLLLoss: the target is " + std::string(c10::toString(given.scalar_type())) +
                   "; it must hold class indices: target.to(torch::kLong). For probabilities use "
                   "CrossEntropyLoss on logits, or KLDivLoss.");
  const auto [log_probabilities, target] = classes_second(output, given);
  return at::nll_loss_nd(log_probabilities, target, weight(output), at::Reduction::Sum,
                         values.ignore_index);
}

IKEBANA_INLINE Loss Mechanism<NLLLoss>::counted_sum(const at::Tensor& output,
                                                    const at::Tensor& given) {
  return counted_nll(output, given, [](const at::Tensor& logs) { return logs; });
}

IKEBANA_INLINE std::string Mechanism<NLLLoss>::describe() const {
  return "ignore_index=" + std::to_string(values.ignore_index) +
         (values.class_dim == 1 ? "" : ", class_dim=" + std::to_string(values.class_dim));
}

}  // namespace ikebana
