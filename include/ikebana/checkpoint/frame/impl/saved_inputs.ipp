#pragma once
#include <ikebana/checkpoint/frame/saved_inputs.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor SaveInputs::forward(torch::autograd::AutogradContext* context,
                                              const at::Tensor& token, at::TensorList inputs) {
  context->save_for_backward(inputs.vec());
  return at::empty({0}, token.options());
}

IKEBANA_INLINE torch::autograd::variable_list SaveInputs::backward(
    torch::autograd::AutogradContext*, torch::autograd::variable_list) {
  throw BadRecompute("checkpoint: a gradient reached the node that only keeps inputs.");
}

IKEBANA_INLINE at::Tensor SaveInputs::save(at::TensorList inputs) {
  return SaveInputs::apply(at::empty({0}).set_requires_grad(true), inputs);
}

IKEBANA_INLINE std::vector<at::Tensor> SaveInputs::load(const at::Tensor& holder) {
  auto node = holder.grad_fn();
  return static_cast<torch::autograd::CppNode<SaveInputs>*>(node.get())->ctx_.get_saved_variables();
}

}  // namespace ikebana::detail
