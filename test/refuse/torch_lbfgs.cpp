// `NeedsSeveralLosses<torch::optim::LBFGS>`
// `torch::optim::LBFGS computes the loss several times in a step`
// `a trainer's step computes the loss once` `Write another optimizer`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Net, torch::optim::LBFGS> trainer{Net()};
#endif
  trainer.step(Batch{});
}
