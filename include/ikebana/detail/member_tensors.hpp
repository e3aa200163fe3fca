#pragma once
// Visits the tensors that LibTorch's layers compute with. They are members of the layers.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Calls `f(name, tensor)` for the registered tensors that a module of LibTorch computes with. They
/// are members of the module, and assigning to a member does not register the assigned tensor.
template <class Module, class F>
void each_member(const torch::nn::Module& any, F&& f) {
  const auto* module = dynamic_cast<const Module*>(&any);
  if (module == nullptr) return;
  if constexpr (requires { module->weight; }) f("weight", module->weight);
  if constexpr (requires { module->bias; }) f("bias", module->bias);
  if constexpr (requires { module->running_mean; }) {
    f("running_mean", module->running_mean);
    f("running_var", module->running_var);
    f("num_batches_tracked", module->num_batches_tracked);
  }
  if constexpr (requires { module->in_proj_weight; }) {
    f("in_proj_weight", module->in_proj_weight);
    f("in_proj_bias", module->in_proj_bias);
  }
}
template <class F>
void each_member_of_libtorch(const torch::nn::Module& module, F&& f) {
  namespace nn = torch::nn;
  auto each = [&]<class... Modules>(std::type_identity<Modules>...) {
    (each_member<Modules>(module, f), ...);
  };
  each(std::type_identity<nn::LinearImpl>(), std::type_identity<nn::BilinearImpl>(),
       std::type_identity<nn::EmbeddingImpl>(), std::type_identity<nn::EmbeddingBagImpl>(),
       std::type_identity<nn::Conv1dImpl>(), std::type_identity<nn::Conv2dImpl>(),
       std::type_identity<nn::Conv3dImpl>(), std::type_identity<nn::ConvTranspose1dImpl>(),
       std::type_identity<nn::ConvTranspose2dImpl>(), std::type_identity<nn::ConvTranspose3dImpl>(),
       std::type_identity<nn::BatchNorm1dImpl>(), std::type_identity<nn::BatchNorm2dImpl>(),
       std::type_identity<nn::BatchNorm3dImpl>(), std::type_identity<nn::InstanceNorm1dImpl>(),
       std::type_identity<nn::InstanceNorm2dImpl>(), std::type_identity<nn::InstanceNorm3dImpl>(),
       std::type_identity<nn::LayerNormImpl>(), std::type_identity<nn::GroupNormImpl>(),
       std::type_identity<nn::PReLUImpl>(), std::type_identity<nn::MultiheadAttentionImpl>());
}

}  // namespace ikebana::detail
