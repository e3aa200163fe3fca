// `MeantAnotherPolicy<Memory, Observe<Memory>>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Observe<Memory>> trainer{Net()};
#else
  Trainer<Net, Memory> trainer{Net()};
#endif
  trainer.step(Batch{});
}
