#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/forward.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_same_shape(const char* name, const at::Tensor& output,
                                     const at::Tensor& target) {
  if (output.sizes() != target.sizes())
    throw BadBatch(std::string(name) + ": the output has shape " + c10::str(output.sizes()) +
                   ", the target " + c10::str(target.sizes()) +
                   ". Give both the same shape; nothing is broadcast.");
}

IKEBANA_INLINE void check_numbers(const char* name, const at::Tensor& output,
                                  const at::Tensor& target) {
  check_same_shape(name, output, target);
  if (at::isIntegralType(target.scalar_type(), /*includeBool=*/true))
    throw BadBatch(std::string(name) + ": the target is " + c10::toString(target.scalar_type()) +
                   ". Convert it to the output's dtype, e.g. with .to(torch::kFloat).");
}

IKEBANA_INLINE void check_probabilities(const char* name, const at::Tensor& output,
                                        const at::Tensor& target) {
  check_same_shape(name, output, target);
  if (!target.is_floating_point())
    throw BadBatch(std::string(name) + ": the target is " + c10::toString(target.scalar_type()) +
                   "; it must hold probabilities. Convert it, e.g. with .to(torch::kFloat).");
}

IKEBANA_INLINE void check_same_lengths(const std::string& name, const Ragged& output,
                                       const Ragged& target) {
  if (recording()) return;
  const auto of_output = output.lengths(), of_target = target.lengths();
  if (of_output == of_target) return;
  throw BadBatch(name + ": the samples of the output have lengths " +
                 c10::str(at::IntArrayRef(of_output)) + ", those of the target " +
                 c10::str(at::IntArrayRef(of_target)) +
                 ". Give each sample as many targets as it has outputs.");
}

}  // namespace ikebana::detail
