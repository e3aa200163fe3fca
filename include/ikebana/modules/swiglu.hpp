#pragma once
// Defines modules::SwiGLU: the MLP of Llama.
#include <cstdint>

#include <ikebana/detail/torch.hpp>

namespace ikebana::modules {

/// Computes down_proj(silu(gate_proj(x)) * up_proj(x)), without biases: the MLP of Llama, with its
/// parameter names. Costs three products of width * hidden; keeps x and four tensors of the hidden
/// width for backward. Source: Shazeer, GLU Variants Improve Transformer, 2020.
struct SwiGLUImpl : torch::nn::Module {
  /// `width` features in and out, `hidden` between.
  SwiGLUImpl(std::int64_t width, std::int64_t hidden);

  /// Takes x (..., width); the result has the same shape.
  at::Tensor forward(const at::Tensor& x);

  torch::nn::Linear gate_proj{nullptr};  ///< width to hidden, before silu
  torch::nn::Linear up_proj{nullptr};    ///< width to hidden
  torch::nn::Linear down_proj{nullptr};  ///< hidden to width

 private:
  static torch::nn::Linear without_bias(std::int64_t from, std::int64_t to);
};
TORCH_MODULE(SwiGLU);

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/swiglu.ipp>
#endif
