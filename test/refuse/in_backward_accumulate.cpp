// `NeedsAllGradients<InBackward<AdamW>, Accumulate<4>>`
// `Accumulate<4> needs all gradients before the update, and InBackward<AdamW>`
// `must see all gradients first` `Remove that policy` `without InBackward`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, InBackward<AdamW>, Accumulate<1>> trainer{Net()};
#else
  Trainer<Net, InBackward<AdamW>, Accumulate<4>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
