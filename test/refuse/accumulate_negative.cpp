// `EmptyAccumulate<-2>` `Accumulate<-2> has a count below 1`
// `an update needs at least one microbatch` `Write Accumulate<N> with N >= 1`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Accumulate<2>> trainer{Net()};
#else
  Trainer<Net, Accumulate<-2>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
