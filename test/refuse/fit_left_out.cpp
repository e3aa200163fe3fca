// `ValueMissing<Accumulate<Fit<>>>` `Accumulate<Fit<>> has no default value` `has no default value`
// `Give one to the constructor` `Accumulate<>{.microbatches = 8}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Accumulate<Fit<>>> trainer{Net(), Accumulate<Fit<>>{.max = 64}};
#else
  Trainer<Net, Accumulate<Fit<>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
