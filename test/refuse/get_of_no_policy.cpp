// `NotInRecipe<SGD>` `SGD is not a policy of the recipe` `not a policy of the trainer` `Add it to`
// `ask for a policy of the recipe`
#include "net.hpp"

int main() {
  Trainer<Net, AdamW> trainer{Net()};
#ifdef COUNTERPART
  trainer.get<AdamW>().lr = 0.1;
#else
  trainer.get<SGD>().lr = 0.1;
#endif
  trainer.step(Batch{});
}
