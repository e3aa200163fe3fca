// `TwoPoliciesSet<axis::optimizer, AdamW, SGD>`
// `AdamW and SGD both set the optimizer; a trainer takes one` `a trainer takes one policy per axis`
// `Remove one of the two`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, SGD> trainer{Net()};
#else
  Trainer<Net, AdamW, SGD> trainer{Net()};
#endif
  trainer.step(Batch{});
}
