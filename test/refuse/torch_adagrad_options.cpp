// `MeantAnotherPolicy<torch::optim::AdagradOptions, Adagrad>`
// `torch::optim::AdagradOptions is not a policy; write Adagrad`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Adagrad> trainer{Net()};
#else
  Trainer<Net, torch::optim::AdagradOptions> trainer{Net()};
#endif
  trainer.step(Batch{});
}
