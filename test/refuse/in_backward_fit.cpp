// `NeedsAllGradients<InBackward<AdamW>, Accumulate<Fit<64>>>`
// `Accumulate<Fit<64>> needs all gradients before the update, and InBackward<AdamW>`
// `must see all gradients first` `Remove that policy` `without InBackward`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW, Accumulate<Fit<64>>> trainer{Net()};
#else
  Trainer<Net, InBackward<AdamW>, Accumulate<Fit<64>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
