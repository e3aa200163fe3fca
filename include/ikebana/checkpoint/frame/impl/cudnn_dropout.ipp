#pragma once
#include <ikebana/checkpoint/frame/cudnn_dropout.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string cudnn_dropout_in(const torch::nn::Module& unit, c10::Device device) {
  if (!device.is_cuda() || !at::globalContext().userEnabledCuDNN()) return {};
  for (const auto& item : unit.named_modules("", /*include_self=*/true)) {
    const torch::nn::Module& module = *item.value();
    if (drops_out<torch::nn::LSTMImpl>(module) || drops_out<torch::nn::GRUImpl>(module) ||
        drops_out<torch::nn::RNNImpl>(module))
      return item.key().empty() ? module.name() : item.key();
  }
  return {};
}

}  // namespace ikebana::detail
