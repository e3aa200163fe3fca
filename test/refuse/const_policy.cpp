// `MeantAnotherPolicy<const AdamW, AdamW>` `const AdamW is not a policy; write AdamW`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Net, const AdamW> trainer{Net()};
#endif
  trainer.step(Batch{});
}
