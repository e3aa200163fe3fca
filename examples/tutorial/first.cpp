// A model of layers of LibTorch, trained for 200 steps.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

int main() {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 2));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  for (int i = 0; i < 200; ++i) {
    at::Tensor points = at::randn({64, 2}), same_sign = (points.prod(1) > 0).to(at::kLong);
    Report report = trainer.step({points, same_sign});
    if (i % 50 == 49) std::cout << report << '\n';
  }
  return 0;
}
