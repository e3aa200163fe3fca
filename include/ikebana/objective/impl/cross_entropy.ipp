#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/cross_entropy.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<CrossEntropyLoss>::sum(const at::Tensor& output,
                                                           const at::Tensor& given) {
  check();
  const auto [logits, target] = classes_second(output, given);
  return at::cross_entropy_loss(logits, target, weight(output), at::Reduction::Sum,
                                values.ignore_index, values.label_smoothing);
}

IKEBANA_INLINE Loss Mechanism<CrossEntropyLoss>::counted_sum(const at::Tensor& output,
                                                             const at::Tensor& given) {
  if (values.label_smoothing != 0) return {};
  return counted_nll(output, given, [](const at::Tensor& logits) {
    return at::log_softmax(logits, 1, logits.scalar_type());
  });
}

IKEBANA_INLINE std::string Mechanism<CrossEntropyLoss>::describe() const {
  return "ignore_index=" + std::to_string(values.ignore_index) +
         ", label_smoothing=" + c10::str(values.label_smoothing) +
         (values.class_dim == 1 ? "" : ", class_dim=" + std::to_string(values.class_dim));
}

IKEBANA_INLINE void Mechanism<CrossEntropyLoss>::check() const {
  if (!(values.label_smoothing >= 0 && values.label_smoothing <= 1))
    throw BadValue("CrossEntropyLoss: label_smoothing is " + c10::str(values.label_smoothing) +
                   "; it must lie between 0 and 1.");
}

}  // namespace ikebana
