// ctest:
// Trains with a policy that wraps another, Lookahead<AdamW> of lookahead.hpp, and checks it.
#include <torch/torch.h>

#include <iostream>

#include "check_policy.hpp"
#include "lookahead.hpp"

using namespace ikebana;

int main() {
  auto net = [] {
    torch::manual_seed(0);
    return torch::nn::Sequential(torch::nn::Linear(16, 64), torch::nn::GELU(),
                                 torch::nn::Linear(64, 32));
  };
  auto recipe = [](auto model, auto... more) {
    return Trainer{model, MSELoss{}, Lookahead<AdamW>{.optimizer = {.lr = 1e-2}, .k = 2}, more...};
  };
  std::vector<std::pair<at::Tensor, at::Tensor>> batches;
  for (int i = 0; i < 3; ++i) batches.emplace_back(at::randn({32, 16}), at::randn({32, 32}));

  check_policy::resumes(net, recipe, batches);
  check_policy::undoes(net, recipe, batches);
  check_policy::skips(net, recipe, batches);
  check_policy::on_two_ranks<ZeRO2>(net, recipe, batches);

  // Two steps of it are two of AdamW, and half of the way back.
  auto start = net(), stepped = net(), looked = net();
  Trainer fast{stepped, MSELoss{}, AdamW{.lr = 1e-2}};
  auto trainer = recipe(looked);
  for (int i = 0; i < 2; ++i) fast.step(batches[0]), trainer.step(batches[0]);
  at::Tensor expected = at::lerp(start->parameters()[0], stepped->parameters()[0], 0.5);
  std::cout << trainer.describe();
  return looked->parameters()[0].equal(expected) ? 0 : 1;
}
