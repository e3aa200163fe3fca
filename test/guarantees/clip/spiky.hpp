#pragma once
// A model whose batches set its losses and gradients, for the tests of SkipSpikes.
#include "guarantees/guarantees.hpp"

namespace guarantees::spikes {

/// Its loss is the batch's input, and its gradient the batch's target.
struct SpikyImpl : torch::nn::Module {
  at::Tensor w = register_parameter("w", torch::zeros({3}));
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor nothing = ((w - w.detach()) * batch.target).sum();
    return {batch.input.sum() + nothing, 1};
  }
};
TORCH_MODULE(Spiky);

inline Rows batch_of(double loss, double norm) {
  return {at::full({1, 1}, loss), at::tensor({0.6, 0.0, 0.8}).view({1, 3}).to(at::kFloat) * norm};
}
/// Losses about 2 and norms about 1, with a spike of either kind now and then.
inline std::vector<Rows> data(int steps = 40) {
  torch::manual_seed(5);
  std::vector<Rows> all;
  for (int i = 0; i < steps; ++i) {
    const double loss = 2 + 0.1 * at::randn({}).item<double>() + (i % 9 == 7 ? 3 : 0);
    const double norm = 1 + 0.1 * at::randn({}).item<double>() + (i % 11 == 10 ? 2 : 0);
    all.push_back(batch_of(loss, norm));
  }
  return all;
}
inline const SkipSpikes few{.window = 6, .zscore = 5};

}  // namespace guarantees::spikes
