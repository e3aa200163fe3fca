// `UndeclaredUnit<BlockImpl, ForgetfulImpl>`
// `BlockImpl was given to run, and is not a unit of ForgetfulImpl` `does not declare as a unit`
// `Add its type to`
#include "net.hpp"

struct ForgetfulImpl : torch::nn::Module {
#ifdef COUNTERPART
  using units = Units<Block>;
#endif
  Block block;
  ForgetfulImpl() { register_module("block", block); }
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    return {run(block, batch.input).sum(), batch.input.numel()};
  }
};
TORCH_MODULE(Forgetful);

int main() {
  Trainer<Forgetful> trainer{Forgetful()};
  trainer.step(Batch{});
}
