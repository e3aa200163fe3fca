#pragma once
// Defines a small classifier with batch norm and dropout, its data, and a user-defined metric.
#include "compare.hpp"
#include "runner_net.hpp"

namespace test::verbs {
using namespace ikebana;
using Rows = Pairs;

struct NetImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(5));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  bool saw_gradients = false;
  at::Tensor forward(const at::Tensor& x) {
    saw_gradients = at::GradMode::is_enabled();
    return drop(norm(w(x)));
  }
};
TORCH_MODULE(Net);
inline Net net(int seed = 0) {
  torch::manual_seed(seed);
  return Net();
}
inline Rows batch(int seed, std::int64_t n = 8) {
  return {random({n, 3}, seed), at::arange(n) % 5};
}
inline std::vector<Rows> data(int n = 6) {
  std::vector<Rows> all;
  for (int i = 0; i < n; ++i) all.push_back(batch(i));
  return all;
}
using Classifier = Trainer<Net, CrossEntropyLoss, SGD>;

struct RowsSeen {
  std::string name = "rows";
  std::int64_t seen = 0;
  void update(const Rows& batch, const at::Tensor&) { seen += batch.input.size(0); }
  std::int64_t value() const { return seen; }
};

}  // namespace test::verbs
