// `MeantAnotherPolicy<torch::optim::ReduceLROnPlateauScheduler, ReduceLROnPlateau>`
// `torch::optim::ReduceLROnPlateauScheduler is not a policy; write ReduceLROnPlateau`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, ReduceLROnPlateau> trainer{Net()};
#else
  Trainer<Net, torch::optim::ReduceLROnPlateauScheduler> trainer{Net()};
#endif
  trainer.step(Batch{});
}
