// `EmptyAccumulate<0>` `Accumulate<0> has a count below 1`
// `an update needs at least one microbatch` `Write Accumulate<N> with N >= 1`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Accumulate<1>> trainer{Net()};
#else
  Trainer<Net, Accumulate<0>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
