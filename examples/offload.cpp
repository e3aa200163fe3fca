// ctest:
// Trains with every choice of Offload and compares: the losses have the same bits, and what lies on
// the host, or in files, is printed.
//
// Usage: offload [folder], a folder on a disk; by default the present one.
#include <torch/torch.h>

#include <filesystem>
#include <ikebana.hpp>
#include <ikebana/estimate.hpp>
#include <iostream>

#include "models/gpt.hpp"
using namespace ikebana;

const GPTConfig config{.layers = 4, .width = 64, .heads = 4, .context = 64};

/// Returns the loss of the third step.
template <class Trainer>
double train(const char* name, Trainer& trainer) {
  torch::manual_seed(1);
  double loss = 0;
  for (int i = 0; i < 3; ++i) {
    const Report report = trainer.step(random_batch(config, 8, config.context));
    loss = report.loss();
    if (i < 2 || !report.offloaded) continue;
    const OffloadTraffic& moved = *report.offloaded;
    std::cout << name << ": activations " << moved.activations_out / 1024 << " KiB out, "
              << moved.activations_back / 1024 << " back; parameters "
              << moved.parameters_back / 1024 << " KiB to the device, gradients "
              << moved.gradients_out / 1024 << " from it\n";
  }
  return loss;
}

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : std::filesystem::current_path();
  auto plain = [] {
    torch::manual_seed(0);
    Trainer trainer{GPT(config), AdamW{.lr = 3e-4}};
    return train("none", trainer);
  };
  auto activations = [] {
    torch::manual_seed(0);
    Trainer trainer{GPT(config), AdamW{.lr = 3e-4}, Offload<CPU, Activations>{}};
    return train("CPU, Activations", trainer);
  };
  auto checkpointed = [] {
    torch::manual_seed(0);
    Trainer trainer{GPT(config), AdamW{.lr = 3e-4}, Offload<CPU, Activations>{},
                    Checkpoint<Selective>{}};
    return train("CPU, Activations with Checkpoint<Selective>", trainer);
  };
  auto parameters = [] {
    torch::manual_seed(0);
    Trainer trainer{GPT(config), AdamW{.lr = 3e-4}, Offload<CPU>{}};
    return train("CPU", trainer);
  };
  auto files = [&] {
    torch::manual_seed(0);
    Trainer trainer{GPT(config), AdamW{.lr = 3e-4}, Offload<Disk>{.folder = folder}};
    return train("Disk", trainer);
  };
  const double loss = plain();
  const bool same =
      activations() == loss && checkpointed() == loss && parameters() == loss && files() == loss;
  std::cout << "loss " << loss << (same ? ", the same bits in all\n" : ", AND OTHERS\n");

  using Recipe = Trainer<GPT, AdamW, Offload<Disk>>;
  const Tokens batch = shapes(random_batch(config, 8, config.context));
  std::cout << estimate<Recipe>([] { return GPT(config); }, batch, Offload<Disk>{.folder = folder});
  return same ? 0 : 1;
}
