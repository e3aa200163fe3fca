// `NoLoss<Bare>` `nothing to minimise` `Add CrossEntropyLoss, MSELoss or a lambda`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Bare, AdamW, MSELoss> trainer{Bare()};
#else
  Trainer<Bare, AdamW> trainer{Bare()};
#endif
  trainer.step(Batch{});
}
