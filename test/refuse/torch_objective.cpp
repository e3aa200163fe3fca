// `MeantAnotherPolicy<torch::nn::CrossEntropyLoss, CrossEntropyLoss>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, CrossEntropyLoss> trainer{Net()};
#else
  Trainer<Net, torch::nn::CrossEntropyLoss> trainer{Net()};
#endif
  trainer.step(Batch{});
}
