// `MeantAnotherPolicy<torch::optim::AdamWOptions, AdamW>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Net, torch::optim::AdamWOptions> trainer{Net()};
#endif
  trainer.step(Batch{});
}
