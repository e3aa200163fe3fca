// `MeantAnotherPolicy<Memory, Observe<Memory>>` `Memory is not a policy; write Observe<Memory>`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Observe<Memory>> trainer{Net()};
#else
  Trainer<Net, Memory> trainer{Net()};
#endif
  trainer.step(Batch{});
}
