// `EmptyAccumulate<-2>` `at least one microbatch` `Write Accumulate<N> with N >= 1`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Accumulate<2>> trainer{Net()};
#else
  Trainer<Net, Accumulate<-2>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
