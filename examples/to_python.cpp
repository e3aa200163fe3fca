// Trains a model and writes its weights so that Python's torch.load reads them: first argument, the
// folder for them. examples/to_python.py loads them into the same model and goes on from there.
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

/// The model's state_dict() as torch.load reads it: pairs of name and tensor. A dictionary would
/// carry a type tag, which torch.load refuses unless told otherwise.
template <class Model>
at::IValue state_dict(const Model& model) {
  std::vector<at::IValue> pairs;
  auto add = [&](const std::string& name, const at::Tensor& value) {
    pairs.push_back(c10::ivalue::Tuple::create(name, value.detach().cpu()));
  };
  for (const auto& item : model->named_parameters()) add(item.key(), item.value());
  for (const auto& item : model->named_buffers()) add(item.key(), item.value());
  return c10::ivalue::Tuple::create(std::move(pairs));
}

void save_for_python(const at::IValue& value, const std::filesystem::path& path) {
  std::vector<char> bytes = torch::pickle_save(value);
  std::ofstream file(path, std::ios::binary);
  if (!file.write(bytes.data(), std::ssize(bytes)).flush())
    throw Error("to_python: " + path.string() + " cannot be written. Name a folder that exists.");
}

int main(int argc, char** argv) {
  std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 32), nn::BatchNorm1d(32), nn::GELU(), nn::Linear(32, 3));
  Trainer trainer{model, CrossEntropyLoss{}, Precision<BF16>{}, Checkpoint<Full>{}};
  at::Tensor x = at::randn({256, 8}), label = x.slice(1, 0, 3).argmax(1);
  for (int i = 0; i < 100; ++i) trainer.step(std::pair{x, label});

  trainer.with_full_weights(
      [&](nn::Sequential& whole) { save_for_python(state_dict(whole), folder / "weights.pt"); });

  model->eval();
  at::NoGradGuard no_grad;
  at::IValue input_and_output = c10::ivalue::Tuple::create(x, model->forward(x));
  save_for_python(input_and_output, folder / "sample.pt");
  std::cout << "weights.pt and sample.pt are in " << folder << '\n';
}
