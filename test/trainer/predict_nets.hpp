#pragma once
// Models that the tests of predict train.
#include "classifier.hpp"

namespace test::predict {

using namespace ikebana;
using verbs::Rows;

/// Units, a forward that takes `run`, and a loss that computes with it.
struct ShownImpl : torch::nn::Module {
  using units = Units<Layer>;
  Layer a = register_module("a", Layer()), b = register_module("b", Layer());
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(b, run(a, x));
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor y = forward(run, batch.input);
    return {at::mse_loss(y, batch.target, at::Reduction::Sum), batch.target.numel(), y};
  }
};
TORCH_MODULE(Shown);
inline Rows pairs(int seed) { return {random({6, 4}, seed), random({6, 4}, seed + 50)}; }
inline std::vector<Rows> data() { return {pairs(1), pairs(2), pairs(3)}; }
template <class Model>
Model made() {
  torch::manual_seed(0);
  return Model();
}

}  // namespace test::predict
