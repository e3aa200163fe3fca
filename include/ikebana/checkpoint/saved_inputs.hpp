#pragma once
// An autograd function that saves the inputs of a checkpointed unit.
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <vector>

namespace ikebana::detail {

/// Saves tensors for backward and computes nothing. Through autograd, so that it checks their
/// versions and the hooks of an outer frame apply to them. A template, so that only files whose
/// recipe checkpoints compile it.
template <class = void>
struct SaveInputs : torch::autograd::Function<SaveInputs<>> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& token,
                            at::TensorList inputs) {
    context->save_for_backward(inputs.vec());
    return at::empty({0}, token.options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw BadRecompute("checkpoint: a gradient reached the node that only keeps inputs.");
  }

  /// An empty tensor whose grad_fn keeps `inputs`.
  static at::Tensor save(at::TensorList inputs) {
    return SaveInputs::apply(at::empty({0}).set_requires_grad(true), inputs);
  }
  static std::vector<at::Tensor> load(const at::Tensor& holder) {
    auto node = holder.grad_fn();
    return static_cast<torch::autograd::CppNode<SaveInputs>*>(node.get())
        ->ctx_.get_saved_variables();
  }
};

}  // namespace ikebana::detail
