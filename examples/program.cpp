// Trains a model that was written in Python, on two ranks, each of which stores half of its
// parameters, and in BF16. It may be killed at any time: the same command resumes it. Argument: the
// folder in which `examples/program.py export` has written the model and the data.
//   python examples/program.py export FOLDER
//   ./program FOLDER
//   python examples/program.py read FOLDER
#include <filesystem>
#include <ikebana.hpp>
#include <ikebana/program.hpp>
#include <ikebana/shard.hpp>
#include <iostream>
using namespace ikebana;

struct Rows {
  at::Tensor input, target;
};

int train(const World& world, const std::filesystem::path& folder) {
  StateDict data = load_tensors(folder / "data.safetensors").tensors;
  DataLoader loader{
      TensorDataset{Rows{data.at("input"), data.at("target")}},
      {.batch_size = 64, .shuffle = true, .num_replicas = world.size, .rank = world.rank}};

  Program model = load_program(folder / "model.pt2");
  torch::manual_seed(0);
  Trainer trainer{model, CrossEntropyLoss{.class_dim = -1}, AdamW{.lr = 1e-2}, Precision<BF16>{},
                  Shard<FSDP>{}};
  const History history = trainer.fit(loader, {.epochs = 6,
                                               .progress = false,
                                               .save_to = folder / "states",
                                               .save_every = 5,
                                               .resume = true});
  export_program(trainer, folder / "trained.pt2");
  if (world.rank == 0 && !history.empty())
    std::cout << "loss of the last epoch " << history.back().loss << '\n';
  return 0;
}

int main(int argc, char** argv) {
  return launch(argc, argv, 2,
                [&](const World& world) { return train(world, argc > 1 ? argv[1] : "."); });
}
