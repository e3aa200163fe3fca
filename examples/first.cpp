// ctest:
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

int main() {
  nn::Sequential model(nn::Linear(2, 32), nn::GELU(), nn::Linear(32, 2));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, Checkpoint<Full>{}, ClipGradNorm{}};
  Report report;
  for (int i = 0; i < 400; ++i) {
    at::Tensor points = at::randn({64, 2}), same_sign = (points.prod(1) > 0).to(at::kLong);
    report = trainer.step(std::pair{points, same_sign});
    if (i % 80 == 0) std::cout << report << '\n';
  }
  return report.loss() < 0.2 ? 0 : 1;
}
