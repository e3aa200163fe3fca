// The smallest recipe: what a file that trains must compile. weight.py counts its object.
#include <torch/torch.h>

#include <ikebana.hpp>

int main() {
  ikebana::Trainer trainer{torch::nn::Linear(4, 1), ikebana::MSELoss{}, ikebana::AdamW{}};
  return trainer.step({at::ones({2, 4}), at::ones({2, 1})}).loss() < 0;
}
