// Includes what several ranks need, and with it a folder of declarations that an installed package
// must have as well. Trains in as many processes as there are, here in one.
#include <ikebana/shard.hpp>

using namespace ikebana;

int main() {
  torch::nn::Linear model(2, 2);
  Trainer trainer{model, CrossEntropyLoss{}, Shard<DDP>{}};
  trainer.step(std::pair{at::ones({4, 2}), at::ones({4}, at::kLong)});
  return trainer.world_size() == 1 && trainer.steps() == 1 ? 0 : 1;
}
