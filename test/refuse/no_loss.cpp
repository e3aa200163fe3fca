// `NoLoss<Bare>` `Bare has no loss, and the recipe has no objective` `nothing to minimise`
// `Add CrossEntropyLoss, MSELoss or a lambda`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Bare, AdamW, MSELoss> trainer{Bare()};
#else
  Trainer<Bare, AdamW> trainer{Bare()};
#endif
  trainer.step(Batch{});
}
