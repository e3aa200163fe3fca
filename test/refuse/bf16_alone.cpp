// `MeantAnotherPolicy<BF16, Precision<BF16>>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Precision<BF16>> trainer{Net()};
#else
  Trainer<Net, BF16> trainer{Net()};
#endif
  trainer.step(Batch{});
}
