// `MeantAnotherPolicy<const AdamW, AdamW>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Net, const AdamW> trainer{Net()};
#endif
  trainer.step(Batch{});
}
