// `MeantAnotherPolicy<torch::nn::CrossEntropyLoss, CrossEntropyLoss>`
// `torch::nn::CrossEntropyLoss is not a policy; write CrossEntropyLoss`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, CrossEntropyLoss> trainer{Net()};
#else
  Trainer<Net, torch::nn::CrossEntropyLoss> trainer{Net()};
#endif
  trainer.step(Batch{});
}
