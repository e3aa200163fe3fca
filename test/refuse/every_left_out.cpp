// `ValueMissing<Checkpoint<Every<` `Checkpoint<Every<>> has no default value`
// `has no default value` `Give one to the constructor` `Accumulate<>{.microbatches = 8}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Every<>>> trainer{Net(), Checkpoint<Every<>>{.every = 2}};
#else
  Trainer<Net, Checkpoint<Every<>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
