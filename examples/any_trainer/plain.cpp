// Defines the recipe `plain`: AdamW and nothing else.
#include <ikebana.hpp>

#include "net.hpp"
using namespace ikebana;

AnyRecipe plain(const Config& config) {
  return Trainer{net(config), CrossEntropyLoss{}, AdamW{.lr = config.lr}};
}
