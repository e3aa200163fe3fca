// `MeantAnotherPolicy<torch::optim::StepLR, StepLR>`
// `torch::optim::StepLR is not a policy; write StepLR`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, StepLR> trainer{Net()};
#else
  Trainer<Net, torch::optim::StepLR> trainer{Net()};
#endif
  trainer.step(Batch{});
}
