// `NotInBackward<InBackward<LibTorchOptimizer<torch::optim::Adam>>,`
// `LibTorchOptimizer<torch::optim::Adam>, and one of them updates in backward`
// `InBackward updates each parameter alone` `Write it without InBackward`
#include "net.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

int main() {
#ifdef COUNTERPART
  Trainer<Net, LibTorchOptimizer<torch::optim::Adam>> trainer{Net()};
#else
  Trainer<Net, InBackward<LibTorchOptimizer<torch::optim::Adam>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
