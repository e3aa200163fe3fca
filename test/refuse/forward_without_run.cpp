// `ForwardWithoutRun<UnreachedImpl>` `UnreachedImpl has units and a forward that takes no run`
// `policies cannot reach them` `forward(Run& run, torch::Tensor x)`
#include "net.hpp"

struct UnreachedImpl : torch::nn::Module {
  using units = Units<Block>;
  Block block;
  UnreachedImpl() { register_module("block", block); }
#ifdef COUNTERPART
  template <class Run>
  torch::Tensor forward(Run& run, torch::Tensor x) {
    return run(block, x);
  }
#else
  torch::Tensor forward(torch::Tensor x) { return block(x); }
#endif
};
TORCH_MODULE(Unreached);

int main() {
  Trainer<Unreached, CrossEntropyLoss> trainer{Unreached()};
  trainer.step(Batch{});
}
