// `TwoPoliciesSet<axis::clip, ClipGradNorm, Without<axis::clip>>`
// `ClipGradNorm and Without<axis::clip> both set the clip`
// `two policies of this recipe set the same axis` `Remove one of the two`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, ClipGradNorm> trainer{Net()};
#else
  Trainer<Net, ClipGradNorm, Without<axis::clip> > trainer{Net()};
#endif
  trainer.step(Batch{});
}
