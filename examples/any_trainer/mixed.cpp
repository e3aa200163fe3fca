// Defines the recipe `mixed`: BF16, activation checkpointing and microbatches.
#include <ikebana.hpp>

#include "net.hpp"
using namespace ikebana;

AnyRecipe mixed(const Config& config) {
  return Trainer{net(config),       CrossEntropyLoss{}, AdamW{.lr = config.lr},
                 Precision<BF16>{}, Checkpoint<Full>{}, Accumulate<2>{}};
}
