// Defines the recipe `averaged`: a schedule with warmup and decay, and an average of the weights.
#include <ikebana.hpp>

#include "net.hpp"
using namespace ikebana;

AnyRecipe averaged(const Config& config) {
  WarmupStableDecayLR schedule{.warmup_steps = 20, .stable_steps = 180, .decay_steps = 100};
  return Trainer{net(config), CrossEntropyLoss{}, AdamW{.lr = config.lr}, schedule,
                 EMA{.decay = 0.98}};
}
