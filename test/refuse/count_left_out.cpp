// `ValueMissing<Accumulate<` `no default value` `Accumulate<>{.microbatches = 8}`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Accumulate<>> trainer{Net(), Accumulate<>{.microbatches = 8}};
#else
  Trainer<Net, Accumulate<>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
