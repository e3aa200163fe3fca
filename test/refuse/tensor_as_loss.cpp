// `NotALoss<at::Tensor>` `must come with the count` `Return Loss{sum, count}`
#include "net.hpp"

struct UncountedImpl : torch::nn::Module {
  Block block;
  UncountedImpl() { register_module("block", block); }
  template <class Run>
  auto loss(Run&, const Batch& batch) {
#ifdef TWIN
    return Loss{block(batch.input).sum(), batch.input.numel()};
#else
    return block(batch.input).mean();
#endif
  }
};
TORCH_MODULE(Uncounted);

int main() {
  Trainer<Uncounted> trainer{Uncounted()};
  trainer.step(Batch{});
}
