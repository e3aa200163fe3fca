// `MeantAnotherPolicy<torch::optim::Adagrad, Adagrad>`
// `torch::optim::Adagrad is not a policy; write Adagrad` `one of its types only resembles a policy`
// `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Adagrad> trainer{Net()};
#else
  Trainer<Net, torch::optim::Adagrad> trainer{Net()};
#endif
  trainer.step(Batch{});
}
