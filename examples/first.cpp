// ctest:
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::GELU(),
                              torch::nn::Linear(32, 2));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, Checkpoint<Full>{},
                  Accumulate<4>{}};
  Report report;
  for (int i = 0; i < 400; ++i) {
    at::Tensor points = at::randn({64, 2}), classes = (points.prod(1) > 0).to(at::kLong);
    report = trainer.step(std::pair{points, classes});
    if (i % 80 == 0) std::cout << report << '\n';
  }
  return report.loss() < 0.2 ? 0 : 1;  // it has learned when two numbers have the same sign
}
