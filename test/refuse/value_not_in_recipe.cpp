// `ValueNotInRecipe<SGD>` `would be ignored` `leave the value out`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, SGD> trainer{Net(), SGD{.lr = 0.1}};
#else
  Trainer<Net, AdamW> trainer{Net(), SGD{.lr = 0.1}};
#endif
  trainer.step(Batch{});
}
