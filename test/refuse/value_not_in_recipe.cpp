// `ValueNotInRecipe<SGD>` `SGD is not a policy of the recipe` `would be ignored` `Add the type to`
// `leave the value out`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, SGD> trainer{Net(), SGD{.lr = 0.1}};
#else
  Trainer<Net, AdamW> trainer{Net(), SGD{.lr = 0.1}};
#endif
  trainer.step(Batch{});
}
