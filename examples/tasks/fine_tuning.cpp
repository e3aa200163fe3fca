// ctest:
// Fine-tuning: a net that has learned to read digits learns from 160 labels which of them are
// primes. First its new head learns on a frozen backbone, then all of it, the backbone slower. The
// run is stopped twice, and started again it ends with the bits of a run that was never stopped.
//
// Freeze keeps the backbone's weights, for the time of its trainer; `eval` keeps the statistics of
// its batch norm. `fit` saves every 5 steps and resumes. In PyTorch:
//   model.load_state_dict(torch.load(path), strict=False)    load_weights(model->backbone, path)
//   model.backbone.requires_grad_(False)                     Freeze<>{.match = "backbone.*"}
//   [{"params": backbone.parameters(), "lr": 2e-4}, ...]     Group{.match = "backbone.*", .lr}
//   torch.save of model, optimizer, epoch, random generators .save_to, .save_every
//     and the sampler's position, and all of the way back    .resume
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <ikebana.hpp>
#include <iostream>

#include "tasks/digits.hpp"
using namespace ikebana;
namespace nn = torch::nn;
namespace fs = std::filesystem;

struct ReaderImpl : nn::Module {
  nn::Sequential backbone{nn::Conv2d(nn::Conv2dOptions(1, 16, 5).stride(2)),
                          nn::ReLU(),
                          nn::Conv2d(nn::Conv2dOptions(16, 64, 6)),
                          nn::BatchNorm2d(64),
                          nn::ReLU(),
                          nn::Flatten()};
  nn::Sequential head;

  explicit ReaderImpl(std::int64_t classes) : head(nn::Dropout(0.2), nn::Linear(64, classes)) {
    register_module("backbone", backbone), register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head->forward(backbone->forward(x)); }
};
TORCH_MODULE(Reader);

/// Returns true if two modules have the same bits in their parameters and buffers.
bool same(const nn::Module& a, const nn::Module& b) {
  return std::ranges::equal(a.parameters(), b.parameters(), at::equal) &&
         std::ranges::equal(a.buffers(), b.buffers(), at::equal);
}
Images with_primes(Images digits) {
  const at::Tensor is_prime = at::tensor({0, 0, 1, 1, 0, 1, 0, 1, 0, 0}, at::kLong);
  return {digits.input, is_prime.index_select(0, digits.target)};
}

/// Runs both phases of fine-tuning. The same call begins a run and continues one that was stopped,
/// which it is after about `life` steps.
Reader fine_tune(const fs::path& weights, const fs::path& run, std::int64_t life) {
  torch::manual_seed(1);
  Reader model(2);
  load_weights(model->backbone, weights);
  model->backbone->eval();  // batch norm keeps its statistics
  DataLoader labelled{TensorDataset{with_primes(some_digits(160, 2))},
                      {.batch_size = 16, .shuffle = true, .seed = 3}};
  FitOptions<Images> saved{.stop = [&] { return --life == 0; }, .save_every = 5, .resume = true};

  const Freeze<> frozen{.match = "backbone.*"};
  saved.epochs = 5, saved.save_to = run / "head";
  if (Trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, frozen}.fit(labelled, saved).stopped)
    return model;
  const Group slower{.match = "backbone.*", .lr = 2e-4};
  saved.epochs = 10, saved.save_to = run / "all";
  Trainer{model, CrossEntropyLoss{}, AdamW{.lr = 2e-3, .groups = {slower}}}.fit(labelled, saved);
  return model;
}

int main() {
  torch::set_num_threads(1);  // so small a net gains nothing from more
  torch::manual_seed(0);
  const fs::path folder = fs::temp_directory_path() / ("fine_tuning-" + std::to_string(::getpid()));
  const fs::path weights = folder / "backbone.safetensors";
  fs::create_directories(folder);

  Reader pretrained(10);
  DataLoader digits{Digits{2048}, {.batch_size = 64}};
  Trainer{pretrained, CrossEntropyLoss{}, AdamW{.lr = 2e-3}}.fit(digits, {.epochs = 4});
  save_weights(pretrained->backbone, weights);

  const Reader whole = fine_tune(weights, folder / "whole", -1);
  const Reader early = fine_tune(weights, folder / "stopped", 17);  // in the first phase
  const Reader later = fine_tune(weights, folder / "stopped", 60);  // in the second
  const Reader resumed = fine_tune(weights, folder / "stopped", -1);
  fs::remove_all(folder);

  const std::vector test{with_primes(some_digits(1000, 4))};
  Trainer judge{resumed, CrossEntropyLoss{}};
  const double accuracy = judge.evaluate(test, Accuracy{})["accuracy"];
  const bool froze = same(*early->backbone, *pretrained->backbone),
             is_same = same(*whole, *resumed);
  std::cout << "accuracy on other images " << accuracy << "; stopped twice, the run ends with "
            << (is_same ? "the same" : "OTHER") << " bits\n";
  return froze && is_same && !same(*later, *whole) && accuracy > 0.9 ? 0 : 1;
}
