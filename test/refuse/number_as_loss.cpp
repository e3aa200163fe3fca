// `NotALoss<double>` `a loss returns double, which has no count` `must come with the count`
// `Return Loss{sum, count}`
#include "net.hpp"

struct UncountedImpl : torch::nn::Module {
  Block block;
  UncountedImpl() { register_module("block", block); }
#ifdef COUNTERPART
  template <class Run>
  Loss loss(Run&, const Batch& batch) {
    return {block(batch.input).sum(), batch.input.numel()};
  }
#else
  template <class Run>
  double loss(Run&, const Batch& batch) {
    return block(batch.input).mean().template item<double>();
  }
#endif
};
TORCH_MODULE(Uncounted);

int main() {
  Trainer<Uncounted> trainer{Uncounted()};
  trainer.step(Batch{});
}
