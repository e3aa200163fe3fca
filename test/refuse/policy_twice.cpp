// `PolicyTwice<ClipGradNorm>` `ClipGradNorm is written twice` `a recipe names each policy once`
// `Remove one of the two`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, ClipGradNorm, AdamW> trainer{Net()};
#else
  Trainer<Net, ClipGradNorm, AdamW, ClipGradNorm> trainer{Net()};
#endif
  trainer.step(Batch{});
}
