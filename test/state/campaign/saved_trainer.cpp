// Makes the saved state of a trainer with every kind of content.
#include <torch/torch.h>

#include <ikebana.hpp>

#include "state/campaign/bad_files.hpp"
#include "state/campaign/disk.hpp"

namespace campaign {

std::string saved_trainer() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(2, 3), torch::nn::BatchNorm1d(3),
                              torch::nn::Linear(3, 2));
  ikebana::Trainer trainer{model, ikebana::CrossEntropyLoss{}, ikebana::EMA{},
                           ikebana::Precision<ikebana::FP16>{}};
  trainer.step(std::pair(at::linspace(-1, 1, 8).view({4, 2}), at::arange(4) % 2));
  Disk disk;
  ikebana::save_tensors("state", trainer.state(), {{"ikebana.recipe", trainer.describe()}}, disk);
  return disk.bytes("state");
}

}  // namespace campaign
