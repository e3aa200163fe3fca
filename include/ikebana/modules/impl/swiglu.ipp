#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/swiglu.hpp>

namespace ikebana::modules {

IKEBANA_INLINE SwiGLUImpl::SwiGLUImpl(std::int64_t width, std::int64_t hidden) {
  gate_proj = register_module("gate_proj", without_bias(width, hidden));
  up_proj = register_module("up_proj", without_bias(width, hidden));
  down_proj = register_module("down_proj", without_bias(hidden, width));
}

IKEBANA_INLINE at::Tensor SwiGLUImpl::forward(const at::Tensor& x) {
  const auto gate = at::silu(at::linear(x, gate_proj->weight));
  return at::linear(gate * at::linear(x, up_proj->weight), down_proj->weight);
}

IKEBANA_INLINE torch::nn::Linear SwiGLUImpl::without_bias(std::int64_t from, std::int64_t to) {
  return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(false));
}

}  // namespace ikebana::modules
