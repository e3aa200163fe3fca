#pragma once
// Defines a model of layers of one size, whose gradients arrive one after the other.
#include "nets.hpp"

namespace test::ranks {

inline constexpr double two_layers = 0.55;  // MiB

/// Layers of one size in a row. A gradient that reaches layer `watched` calls `during_backward`.
struct RowImpl : torch::nn::Module {
  std::vector<torch::nn::Linear> layers;
  std::size_t watched = 0;
  std::function<void()> during_backward = {};
  RowImpl() {
    for (int i = 0; i < 12; ++i)
      layers.push_back(register_module(std::to_string(i), torch::nn::Linear(256, 256)));
  }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    at::Tensor x = batch.input;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = at::tanh(layers[i](x));
      if (i == watched && during_backward && x.requires_grad())
        x.register_hook([this](const at::Tensor&) { during_backward(); });
    }
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Row);
inline std::vector<Rows> long_rows(std::int64_t steps, std::int64_t rows) {
  torch::manual_seed(3);
  std::vector<Rows> all;
  for (std::int64_t i = 0; i < steps; ++i)
    all.push_back({at::randn({rows, 256}), at::rand({rows, 256})});
  return all;
}

}  // namespace test::ranks
