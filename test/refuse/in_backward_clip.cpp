// `NeedsAllGradients<InBackward<AdamW>, ClipGradNorm>`
// `ClipGradNorm needs all gradients before the update, and InBackward<AdamW>`
// `must see all gradients first` `Remove that policy` `without InBackward`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, ClipGradNorm, AdamW> trainer{Net()};
#else
  Trainer<Net, InBackward<AdamW>, ClipGradNorm> trainer{Net()};
#endif
  trainer.step(Batch{});
}
