#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/gradient_hooks.hpp>

namespace ikebana::detail {

IKEBANA_INLINE torch::autograd::variable_list ForwardGradientHooks::operator()(
    const torch::autograd::variable_list& gradients) {
  torch::autograd::variable_list results = gradients;
  for (const auto& hook : torch::autograd::impl::hooks(parameter)) results = (*hook)(results);
  return results;
}

IKEBANA_INLINE bool has_gradient_hooks(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (meta == nullptr) return false;
  const auto& list = meta->cpp_hooks_list_;
  return list ? !list->empty() || meta->hooks_.size() > 1 : !meta->hooks_.empty();
}

IKEBANA_INLINE bool has_accumulation_hook(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  return meta != nullptr && meta->post_acc_grad_hooks_ != nullptr;
}

IKEBANA_INLINE void make_hook_list(const at::Tensor& parameter) {
  if (!parameter.requires_grad()) return;
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (!meta->cpp_hooks_list_ && meta->hooks_.empty())
    torch::autograd::impl::create_cpp_hook(parameter);
}

IKEBANA_INLINE void forward_gradient_hooks(const at::Tensor& parameter, const at::Tensor& master) {
  namespace impl = torch::autograd::impl;
  make_hook_list(master);  // else a hook that a mechanism registers there would replace this one
  auto& hooks = impl::hooks(master);
  hooks.insert(hooks.begin(), std::make_unique<ForwardGradientHooks>(parameter));
}

}  // namespace ikebana::detail
