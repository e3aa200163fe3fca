// `ForwardWithoutRun<UnseenImpl>` `UnseenImpl has units and a forward that takes no run`
// `policies cannot reach them` `forward(Run& run, torch::Tensor x)`
#include "net.hpp"

struct UnseenImpl : torch::nn::Module {
  using units = Units<Block>;
  Block block;
  UnseenImpl() { register_module("block", block); }
#ifdef COUNTERPART
  template <class Run>
  torch::Tensor forward(Run& run, torch::Tensor x) {
    return run(block, x);
  }
#else
  torch::Tensor forward(torch::Tensor x) { return block(x); }
#endif
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    return {run(block, batch.input).sum(), batch.input.size(0)};
  }
};
TORCH_MODULE(Unseen);

int main() {
  Trainer trainer{Unseen()};
  trainer.predict(torch::Tensor());
}
