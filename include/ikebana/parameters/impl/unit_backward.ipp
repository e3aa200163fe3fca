#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

IKEBANA_INLINE void UnitBackward::begin(const Pointer& call) {
  if (std::exchange(call->is_open_, true)) return;
  call->before_();
  torch::autograd::Engine::get_default_engine().queue_callback([call] { call->end(); });
}

IKEBANA_INLINE void UnitBackward::end() {
  if (std::exchange(is_open_, false)) after_();
}

IKEBANA_INLINE torch::autograd::variable_list UnitBackward::EndHook::operator()(
    const torch::autograd::variable_list& gradients) {
  call->argument_has_gradient();
  return gradients;
}

IKEBANA_INLINE void UnitBackward::insert_first(const at::Tensor& t, const Pointer& call) {
  auto& hooks = t.grad_fn()->tensor_pre_hooks();
  hooks.insert(hooks.begin(), std::make_unique<EndHook>(call));
}

IKEBANA_INLINE void UnitBackward::argument_has_gradient() {
  if (--missing_ == 0) end();
}

}  // namespace ikebana
