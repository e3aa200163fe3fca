#pragma once
// Defines the MLP of the benchmarks.
#include <torch/torch.h>

namespace bench {

/// Three layers with a GELU between them, which have the names of Python's Sequential.
struct MLPImpl : torch::nn::Module {
  explicit MLPImpl(std::int64_t width) {
    for (auto* layer : {&first, &second, &third})
      *layer =
          register_module(std::to_string(2 * children().size()), torch::nn::Linear(width, width));
  }
  at::Tensor forward(const at::Tensor& x) { return third(at::gelu(second(at::gelu(first(x))))); }

  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
};
TORCH_MODULE(MLP);

}  // namespace bench
