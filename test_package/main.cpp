// The program of every project outside the tree: trains, and returns 1 if the loss does not fall.
// It includes parts of LibTorch, since <torch/torch.h> takes a third more time to compile.
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <ikebana.hpp>
#include <iostream>
#include <utility>

using namespace ikebana;
namespace nn = torch::nn;

static_assert(__cplusplus >= 202002L, "ikebana::ikebana sets C++20");

int main() {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(2, 32), nn::Functional(at::relu), nn::Linear(32, 2));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, Checkpoint<Full>{}, ClipGradNorm{}};
  Report first, last;
  for (int i = 0; i < 200; ++i) {
    at::Tensor points = at::randn({64, 2}), same_sign = (points.prod(1) > 0).to(at::kLong);
    last = trainer.step({points, same_sign});
    if (i == 0) first = last;
  }
  std::cout << trainer.describe() << '\n' << first << '\n' << last << '\n';
  return last.loss() < first.loss() / 2 ? 0 : 1;
}
