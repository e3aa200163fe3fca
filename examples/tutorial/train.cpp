// Trains, resumes where it was interrupted, and exports the model. The argument is a folder for all
// that is written.
#include <filesystem>
#include <iostream>

#include "digits.hpp"
using namespace ikebana;

int main(int argc, char** argv) try {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "run";
  torch::manual_seed(0);
  DataLoader loader{TensorDataset{draw(4096)}, {.batch_size = 64, .shuffle = true}};
  DataLoader held_out{TensorDataset{draw(1024)}, {.batch_size = 256}};
  Trainer trainer{Reader(), AdamW{.lr = 2e-3}, ClipGradNorm{}, CosineAnnealingLR{.T_max = 256}};

  auto print = [](const Epoch& epoch) {
    std::cout << "epoch " << epoch.epoch << "  loss " << epoch.loss << "  validation "
              << epoch.validation->loss << "  accuracy " << (*epoch.validation)["accuracy"]
              << std::endl;
  };
  trainer.fit(loader, {.epochs = 4,
                       .validate = held_out,
                       .metrics = {Accuracy{}},
                       .on_epoch = print,
                       .save_to = folder / "states",
                       .save_every = 16,
                       .resume = true});

  trainer.save_weights(folder / "weights.safetensors");
  Digits sample = draw(64);
  save_tensors(folder / "sample.safetensors",
               {{"input", sample.input}, {"output", trainer.predict(sample.input)}});
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
