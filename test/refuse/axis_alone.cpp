// `MeantAnotherPolicy<axis::optimizer, AdamW>` `optimizer is not a policy; write AdamW`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Net, axis::optimizer> trainer{Net()};
#endif
  trainer.step(Batch{});
}
