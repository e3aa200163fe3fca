// `MeantAnotherPolicy<Full, Checkpoint<Full>>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Full>> trainer{Net()};
#else
  Trainer<Net, Full> trainer{Net()};
#endif
  trainer.step(Batch{});
}
