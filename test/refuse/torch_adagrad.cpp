// `MeantAnotherPolicy<torch::optim::Adagrad, Adagrad>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Adagrad> trainer{Net()};
#else
  Trainer<Net, torch::optim::Adagrad> trainer{Net()};
#endif
  trainer.step(Batch{});
}
