// `PolicyTwice<ClipGradNorm>` `written twice` `Take one of them away`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, ClipGradNorm, AdamW> trainer{Net()};
#else
  Trainer<Net, ClipGradNorm, AdamW, ClipGradNorm> trainer{Net()};
#endif
  trainer.step(Batch{});
}
