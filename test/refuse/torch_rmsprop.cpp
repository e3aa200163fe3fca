// `MeantAnotherPolicy<torch::optim::RMSprop, RMSprop>`
// `torch::optim::RMSprop is not a policy; write RMSprop`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, RMSprop> trainer{Net()};
#else
  Trainer<Net, torch::optim::RMSprop> trainer{Net()};
#endif
  trainer.step(Batch{});
}
