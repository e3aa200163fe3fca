// `MeantAnotherPolicy<BF16, Precision<BF16>>` `BF16 is not a policy; write Precision<BF16>`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Precision<BF16>> trainer{Net()};
#else
  Trainer<Net, BF16> trainer{Net()};
#endif
  trainer.step(Batch{});
}
