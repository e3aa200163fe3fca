#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/bce.hpp>

namespace ikebana {

IKEBANA_INLINE at::Tensor Mechanism<BCELoss>::sum(const at::Tensor& output,
                                                  const at::Tensor& target) {
  detail::check_probabilities("BCELoss", output, target);
  const auto type = output.scalar_type();
  if (type == at::kBFloat16 || type == at::kHalf)
    throw BadModel("BCELoss: the output is " + std::string(c10::toString(type)) +
                   ", in which probabilities near 1 are rounded to 1, and have no gradient. Use "
                   "BCEWithLogitsLoss on logits, without the sigmoid; or compute the sigmoid in "
                   "single precision: x.to(torch::kFloat).sigmoid().");
  // Autocast refuses the operator on a GPU, whatever the dtype.
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  try {
    return at::binary_cross_entropy(
        output, target, weight_("BCELoss: weight", values.weight, output), at::Reduction::Sum);
  } catch (const c10::Error& error) {
    throw_outside(error.what_without_backtrace());
    throw;
  }
}

IKEBANA_INLINE void Mechanism<BCELoss>::throw_outside(const std::string& message) {
  if (message.find("input should be between 0 and 1") != message.npos)
    throw BadModel(
        "BCELoss: the output has values outside of 0 to 1, or NaN. End the model with a sigmoid, "
        "or use BCEWithLogitsLoss, which takes logits.");
  if (message.find("target should be between 0 and 1") != message.npos)
    throw BadBatch("BCELoss: the target has values outside of 0 to 1. Give it probabilities.");
}

}  // namespace ikebana
