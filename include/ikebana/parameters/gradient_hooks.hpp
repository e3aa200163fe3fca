#pragma once
// The user's gradient hooks on a parameter whose gradient arrives at a master weight.
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

/// Called with the gradient of a master weight: calls the hooks that its parameter has by then.
template <class = void>
struct ForwardGradientHooks : torch::autograd::FunctionPreHook {
  at::Tensor parameter;
  explicit ForwardGradientHooks(at::Tensor p) : parameter(std::move(p)) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    torch::autograd::variable_list results = gradients;
    for (const auto& hook : torch::autograd::impl::hooks(parameter)) results = (*hook)(results);
    return results;
  }
};

/// Whether a parameter has hooks of `register_hook`.
inline bool has_gradient_hooks(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (meta == nullptr) return false;
  const auto& list = meta->cpp_hooks_list_;
  return list ? !list->empty() || meta->hooks_.size() > 1 : !meta->hooks_.empty();
}
/// Whether it has one that is called after its gradient was accumulated.
inline bool has_accumulation_hook(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  return meta != nullptr && meta->post_acc_grad_hooks_ != nullptr;
}
/// Makes the list that `register_hook` adds to while the parameter is a leaf: one that is made in
/// the middle of a forward would belong to the node of that forward as well.
inline void make_hook_list(const at::Tensor& parameter) {
  if (!parameter.requires_grad()) return;
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (!meta->cpp_hooks_list_ && meta->hooks_.empty())
    torch::autograd::impl::create_cpp_hook(parameter);
}
/// From now on the hooks of a parameter are called with the gradient of its master weight, before
/// it is accumulated: once per backward pass, as for a leaf.
inline void forward_gradient_hooks(const at::Tensor& parameter, const at::Tensor& master) {
  namespace impl = torch::autograd::impl;
  make_hook_list(master);  // else a hook that a mechanism registers there would replace this one
  auto& hooks = impl::hooks(master);
  hooks.insert(hooks.begin(), std::make_unique<ForwardGradientHooks<>>(parameter));
}

}  // namespace ikebana::detail
