// `NeedsSeveralLosses<LibTorchOptimizer<torch::optim::LBFGS>>`
// `LibTorchOptimizer<torch::optim::LBFGS> computes the loss several times in a step`
// `step computes the loss once` `call this one in a loop of your own`
#include "net.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

int main() {
#ifdef COUNTERPART
  using torch::optim::RMSprop;
  Trainer<Net, LibTorchOptimizer<RMSprop>> trainer{Net(), LibTorchOptimizer<RMSprop>{}};
#else
  using torch::optim::LBFGS;
  Trainer<Net, LibTorchOptimizer<LBFGS>> trainer{Net(), LibTorchOptimizer<LBFGS>{}};
#endif
  trainer.step(Batch{});
}
