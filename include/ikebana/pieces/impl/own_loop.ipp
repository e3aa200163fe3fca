#pragma once
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/pieces/own_loop.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Masters masters_of(const torch::nn::Module& module) {
  Masters masters;
  for (const auto& item : each_once(module.named_parameters()))
    masters.names.push_back(item.key()), masters.values.push_back(item.value());
  return masters;
}

IKEBANA_INLINE c10::Device device_of(const torch::nn::Module& module) {
  const Tensors parameters = module.parameters();
  return parameters.empty() ? c10::Device(at::kCPU) : parameters[0].device();
}

IKEBANA_INLINE void finish_gradients(StepGradients& gradients, const Tensors& parameters) {
  gradients.apply_divisor();
  for (std::size_t k = 0; k < gradients.values.size(); ++k)
    if (gradients.values[k].is_sparse())
      parameters[gradients.indices[k]].mutable_grad() = gradients.values[k];
}

}  // namespace ikebana::detail
