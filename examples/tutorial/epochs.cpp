// Trains for four epochs, with validation and a metric.
#include <iostream>

#include "digits.hpp"
using namespace ikebana;

int main() {
  torch::manual_seed(0);
  DataLoader loader{TensorDataset{draw(4096)}, {.batch_size = 64, .shuffle = true}};
  DataLoader held_out{TensorDataset{draw(1024)}, {.batch_size = 256}};
  Trainer trainer{Reader(), AdamW{.lr = 2e-3}, ClipGradNorm{}};

  auto print = [](const Epoch& epoch) {
    std::cout << "epoch " << epoch.epoch << "  loss " << epoch.loss << "  validation "
              << epoch.validation->loss << "  accuracy " << (*epoch.validation)["accuracy"]
              << std::endl;
  };
  trainer.fit(loader,
              {.epochs = 4, .validate = held_out, .metrics = {Accuracy{}}, .on_epoch = print});
  std::cout << trainer.describe() << '\n';
  return 0;
}
