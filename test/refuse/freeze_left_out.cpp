// `ValueMissing<Freeze<` `no default value` `Freeze<>{.match = named(`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Freeze<>> trainer{Net(), Freeze<>{.match = named("block.linear.bias")}};
#else
  Trainer<Net, Freeze<>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
