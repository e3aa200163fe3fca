#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/bce_with_logits.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<BCEWithLogitsLoss>::sum(const at::Tensor& logits,
                                                            const at::Tensor& target) {
  detail::check_probabilities("BCEWithLogitsLoss", logits, target);
  return at::binary_cross_entropy_with_logits(
      logits, target, weight_("BCEWithLogitsLoss: weight", values.weight, logits),
      pos_weight_("BCEWithLogitsLoss: pos_weight", values.pos_weight, logits), at::Reduction::Sum);
}

IKEBANA_INLINE std::string Mechanism<BCEWithLogitsLoss>::describe() const {
  return std::string(values.weight.defined() ? "weight" : "") +
         (values.weight.defined() && values.pos_weight.defined() ? ", " : "") +
         (values.pos_weight.defined() ? "pos_weight" : "");
}

}  // namespace ikebana
