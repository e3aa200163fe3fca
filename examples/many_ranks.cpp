// ctest:
// Trains a small language model on a text on two ranks, each of which stores half of its
// parameters, of their gradients and of the optimizer's state. On any number of ranks it trains on
// the same batches, and prints the same losses:
//   ./many_ranks                                          on two, which it starts itself
//   torchrun --no-python --nproc-per-node 4 ./many_ranks  on four
//   RANK=0 WORLD_SIZE=1 ./many_ranks                      on one
// Arguments: a file or folder of text, and a file for the trained weights.
#include <ikebana/shard.hpp>
#include <iostream>

#include "text.hpp"
using namespace ikebana;

/// A text as windows that follow each other.
struct Corpus {
  at::Tensor bytes;
  std::int64_t length;

  std::int64_t size() const { return (bytes.numel() - 1) / length; }
  Tokens get(std::int64_t index) const {
    at::Tensor window = bytes.narrow(0, index * length, length + 1).to(at::kLong);
    return {window.slice(0, 0, length), window.slice(0, 1)};
  }
};

int train(const World& world, const std::filesystem::path& from, const std::string& to) {
  const GPTConfig config{.layers = 2, .width = 64};
  const Text text = read_text(from, 100'000);
  torch::manual_seed(0);
  Trainer trainer{GPT(config), AdamW{.lr = 3e-3}, ClipGradNorm{}, Shard<FSDP>{}};

  const DataLoaderOptions options{
      .batch_size = 32, .shuffle = true, .num_replicas = world.size, .rank = world.rank};
  DataLoader training{Corpus{text.train, config.context}, options};
  DataLoader validation{Corpus{text.validation.slice(0, 0, 20'000), config.context}, options};

  const bool prints = world.rank == 0;
  const double before = trainer.evaluate(validation).loss;
  for (const Tokens& batch : training) {
    const Report report = trainer.step(batch);
    if (prints) std::cout << "step " << report.step << "  loss " << report.loss() << '\n';
    if (trainer.steps() == 40) break;
  }
  const double after = trainer.evaluate(validation).loss;
  if (prints) std::cout << "validation loss " << before << " -> " << after << '\n';
  if (!to.empty()) trainer.save_weights(to);  // all ranks call it, and rank 0 writes
  return after < before - 1 ? 0 : 1;
}

int main(int argc, char** argv) {
  return launch(argc, argv, 2, [&](const World& world) {
    if (world.rank == 0) std::cout << "world size " << world.size << '\n';
    const std::filesystem::path text = argc > 1 ? argv[1] : libtorch_headers();
    return train(world, text, argc > 2 ? argv[2] : "");
  });
}
