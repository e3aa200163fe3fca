#pragma once
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <vector>

namespace ikebana::detail {

/// Saves tensors for backward and does nothing else: autograd then watches their versions, and the
/// hooks of an outer frame see them.
struct SaveInputs : torch::autograd::Function<SaveInputs> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& token,
                            at::TensorList inputs) {
    context->save_for_backward(inputs.vec());
    return at::empty({0}, token.options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw BadRecompute("checkpoint: a gradient reached the node that only keeps inputs.");
  }

  /// A tensor whose node holds them.
  static at::Tensor hold(at::TensorList inputs) {
    return apply(at::empty({0}).set_requires_grad(true), inputs);
  }
  static std::vector<at::Tensor> held_by(const at::Tensor& holder) {
    auto node = holder.grad_fn();
    return static_cast<torch::autograd::CppNode<SaveInputs>*>(node.get())
        ->ctx_.get_saved_variables();
  }
};

}  // namespace ikebana::detail
