#pragma once
// An autograd function that saves the inputs of a checkpointed unit.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// Saves tensors for backward and computes nothing. Through autograd, so that it checks their
/// versions and the hooks of an outer frame apply to them.
struct SaveInputs : torch::autograd::Function<SaveInputs> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& token,
                            at::TensorList inputs);
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list);

  /// An empty tensor whose grad_fn keeps `inputs`.
  static at::Tensor save(at::TensorList inputs);
  static std::vector<at::Tensor> load(const at::Tensor& holder);
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/saved_inputs.ipp>
#endif
