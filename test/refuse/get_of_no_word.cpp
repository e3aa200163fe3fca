// `NotInRecipe<SGD>` `not a word of the recipe` `ask for a word that is there`
#include "net.hpp"

int main() {
  Trainer<Net, AdamW> trainer{Net()};
#ifdef TWIN
  trainer.get<AdamW>().lr = 0.1;
#else
  trainer.get<SGD>().lr = 0.1;
#endif
  trainer.step(Batch{});
}
