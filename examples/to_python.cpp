// Trains a model and writes it to the folder that the first argument names: as a program of
// torch.export, and its weights as safetensors. examples/to_python.py opens both in Python.
#include <torch/torch.h>

#include <filesystem>
#include <ikebana.hpp>
#include <ikebana/program.hpp>
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

  export_program(trainer, x, folder / "model.pt2", {.dynamic = {{"input", 0, "rows"}}});

  trainer.save_weights(folder / "weights.safetensors");

  at::Tensor evaluated = trainer.predict(x);  // as the recipe computes, in BF16
  model->eval();
  at::NoGradGuard no_grad;
  save_tensors(folder / "sample.safetensors",
               {{"input", x}, {"evaluated", evaluated}, {"output", model->forward(x)}});
  std::cout << "model.pt2, weights.safetensors and sample.safetensors are in " << folder << '\n';
  return 0;
}
