// `MeantAnotherPolicy<torch::optim::AdamW, AdamW>`
// `torch::optim::AdamW is not a policy; write AdamW` `one of its types only resembles a policy`
// `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Net, torch::optim::AdamW> trainer{Net()};
#endif
  trainer.step(Batch{});
}
