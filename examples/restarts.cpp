// A training on several ranks that may be killed at any instant. The same command starts it and
// resumes it, on the same number of ranks or on another one; torchrun does so by itself:
//   torchrun --no-python --nproc-per-node 4 --max-restarts 3 ./restarts run
// What is lost are the steps since the last saved state. Arguments: a folder for the states, how
// many epochs, and a file or folder of text. The last state is written to `<folder>.end`.
#include <chrono>
#include <filesystem>
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

void train(const World& world, const std::filesystem::path& folder, std::int64_t epochs,
           const std::filesystem::path& from) {
  const GPTConfig config{.layers = 2, .width = 64};
  const Text text = read_text(from, 50'000);
  torch::manual_seed(0);
  const ProcessGroup group(world, {.timeout = std::chrono::seconds(20)});
  Trainer trainer{GPT(config), AdamW{.lr = 3e-3}, Shard<FSDP>{.process_group = group}};
  DataLoader training{
      Corpus{text.train, config.context},
      {.batch_size = 32, .shuffle = true, .num_replicas = world.size, .rank = world.rank}};
  const History history = trainer.fit(training, {.epochs = epochs,
                                                 .progress = false,
                                                 .save_to = folder,
                                                 .save_every = 5,
                                                 .resume = true,
                                                 .save_async = true});
  trainer.save_full(folder.string() + ".end");
  if (world.rank == 0)
    std::cout << "epoch " << history.size() << ", step " << trainer.steps() << "  loss "
              << history.back().loss << '\n';
}

int main(int argc, char** argv) {
  return launch(argc, argv, 2, [&](const World& world) {
    train(world, argc > 1 ? argv[1] : "restarts.out", argc > 2 ? std::stoll(argv[2]) : 1,
          argc > 3 ? argv[3] : libtorch_headers());
  });
}
