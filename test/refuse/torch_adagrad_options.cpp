// `MeantAnotherPolicy<torch::optim::AdagradOptions, Adagrad>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Adagrad> trainer{Net()};
#else
  Trainer<Net, torch::optim::AdagradOptions> trainer{Net()};
#endif
  trainer.step(Batch{});
}
