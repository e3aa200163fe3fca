#pragma once
// The user's gradient hooks on a parameter whose gradient arrives at a master weight.
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

/// Called with the gradient of a master weight: calls the hooks that its parameter has by then.
struct ForwardGradientHooks : torch::autograd::FunctionPreHook {
  at::Tensor parameter;
  explicit ForwardGradientHooks(at::Tensor p) : parameter(std::move(p)) {}

  IKEBANA_INLINE torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override;
};

/// Whether a parameter has hooks of `register_hook`.
bool has_gradient_hooks(const at::Tensor& parameter);
/// Whether it has one that is called after its gradient was accumulated.
bool has_accumulation_hook(const at::Tensor& parameter);
/// Makes the list that `register_hook` adds to while the parameter is a leaf: one that is made in
/// the middle of a forward would belong to the node of that forward as well.
void make_hook_list(const at::Tensor& parameter);
/// From now on the hooks of a parameter are called with the gradient of its master weight, before
/// it is accumulated: once per backward pass, as for a leaf.
void forward_gradient_hooks(const at::Tensor& parameter, const at::Tensor& master);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/gradient_hooks.ipp>
#endif
