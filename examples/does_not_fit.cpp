// ctest:
// A training that does not fit into the memory that there is, and the policy with which it does.
// The estimate says both before anything is allocated; then both are tried under a limit of this
// process. The losses equal, to the bit, the losses of the first recipe if there is more memory.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <ikebana/estimate.hpp>
#include <iomanip>
#include <iostream>
#include <optional>

#include "models/gpt.hpp"
using namespace ikebana;

constexpr std::int64_t limit = 64 << 20, windows = 16;  // bytes, and in a batch
const GPTConfig config{.layers = 6, .width = 128, .heads = 4, .context = 128};

using Whole = Trainer<GPT, AdamW>;
using Checkpointed = Trainer<GPT, AdamW, Checkpoint<Full>>;

/// Returns bytes as MiB.
double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Prints what `Recipe` will take, and returns whether it fits.
template <class Recipe>
bool fits(const char* name) {
  const auto batch = shapes(random_batch(config, windows, config.context));
  const Estimate estimated = estimate<Recipe>([] { return GPT(config); }, batch);
  const bool does_fit = estimated.peak <= limit;
  std::cout << name << ": " << estimated << (does_fit ? "It fits" : "It does not fit") << " into "
            << mib(limit) << " MiB.\n\n";
  return does_fit;
}

struct Training {
  std::vector<double> losses;
  std::int64_t peak = 0;
};
/// Makes three steps, always from the same weights and on the same batch.
template <class Recipe>
Training train() {
  bridge::MemoryCounter memory(at::kCPU);
  torch::manual_seed(0);
  Recipe trainer{GPT(config), AdamW{.lr = 1e-3}};
  const Tokens batch = random_batch(config, windows, config.context);
  Training training;
  for (int i = 0; i < 3; ++i) training.losses.push_back(trainer.step(batch).loss());
  training.peak = memory.peak();
  return training;
}

/// Trains as the estimate says that it cannot, and returns whether memory was the reason to stop.
bool runs_out() try {
  train<Whole>();
  return false;
} catch (const OutOfMemory& error) {
  std::cout << "The first recipe under the limit:\n" << error.what() << "\n\n";
  return true;
}

void print(const char* name, const Training& training) {
  std::cout << name << ": losses";
  for (const double loss : training.losses) std::cout << ' ' << std::setprecision(9) << loss;
  std::cout << ", peak " << std::setprecision(4) << mib(training.peak) << " MiB\n";
}

int main() {
  const bool plain_fits = fits<Whole>("Trainer<GPT, AdamW>");
  const bool checkpointed_fits =
      fits<Checkpointed>("Trainer<GPT, AdamW, Checkpoint<Full>>, one policy more");

  std::optional<MemoryLimit> small(limit);
  const bool ran_out = runs_out();
  const Training checkpointed = train<Checkpointed>();
  print("With Checkpoint<Full>, under the limit", checkpointed);
  small.reset();
  const Training plain = train<Whole>();
  print("Without it, without a limit           ", plain);

  const bool same = plain.losses == checkpointed.losses;
  std::cout << "The losses are " << (same ? "the same to the bit" : "NOT THE SAME") << ".\n";
  return !plain_fits && ran_out && checkpointed_fits && same ? 0 : 1;
}
