// `EmptyFit<Accumulate<Fit<0>>>` `Accumulate<Fit<0>> has a maximum below 1`
// `an update needs at least one microbatch` `Write Accumulate<Fit<Max>> with Max >= 1`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Accumulate<Fit<1>>> trainer{Net()};
#else
  Trainer<Net, Accumulate<Fit<0>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
