// Trains a model and writes its weights as safetensors, to the folder that the first argument
// names. examples/to_python.py loads them in Python into the same model and exports it.
#include <torch/torch.h>

#include <filesystem>
#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

int main(int argc, char** argv) {
  std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 32), nn::BatchNorm1d(32), nn::GELU(), nn::Linear(32, 3));
  Trainer trainer{model, CrossEntropyLoss{}, Precision<BF16>{}, Checkpoint<Full>{}};
  at::Tensor x = at::randn({256, 8}), label = x.slice(1, 0, 3).argmax(1);
  for (int i = 0; i < 100; ++i) trainer.step(std::pair{x, label});

  trainer.save_weights(folder / "weights.safetensors");

  model->eval();
  at::NoGradGuard no_grad;
  save_tensors(folder / "sample.safetensors", {{"input", x}, {"output", model->forward(x)}});
  std::cout << "weights.safetensors and sample.safetensors are in " << folder << '\n';
  return 0;
}
