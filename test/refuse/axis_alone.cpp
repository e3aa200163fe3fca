// `MeantAnotherPolicy<axis::optimizer, AdamW>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Net, axis::optimizer> trainer{Net()};
#endif
  trainer.step(Batch{});
}
