// `NeedsAllGradients<InBackward<AdamW>, ClipGradNorm>` `as its gradient arrives`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, ClipGradNorm, AdamW> trainer{Net()};
#else
  Trainer<Net, InBackward<AdamW>, ClipGradNorm> trainer{Net()};
#endif
  trainer.step(Batch{});
}
