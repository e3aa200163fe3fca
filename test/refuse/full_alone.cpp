// `MeantAnotherPolicy<Full, Checkpoint<Full>>` `Full is not a policy; write Checkpoint<Full>`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Full>> trainer{Net()};
#else
  Trainer<Net, Full> trainer{Net()};
#endif
  trainer.step(Batch{});
}
