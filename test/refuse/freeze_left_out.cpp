// `ValueMissing<Freeze<` `Freeze<> has no default value` `has no default value`
// `Give one to the constructor` `Freeze<>{.match = named(`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Freeze<>> trainer{Net(), Freeze<>{.match = named("block.linear.bias")}};
#else
  Trainer<Net, Freeze<>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
