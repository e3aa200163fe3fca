// `ValueMissing<Accumulate<` `Accumulate<> has no default value` `has no default value`
// `Give one to the constructor` `Accumulate<>{.microbatches = 8}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Accumulate<>> trainer{Net(), Accumulate<>{.microbatches = 8}};
#else
  Trainer<Net, Accumulate<>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
