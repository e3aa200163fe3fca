// `LossTakesOtherArguments<RunlessImpl, Batch>`
// `the loss of RunlessImpl cannot be called with a run and Batch`
// `cannot be called with a run and this batch` `loss(Run& run, const Batch& batch)`
#include "net.hpp"

struct RunlessImpl : torch::nn::Module {
  Block block;
  RunlessImpl() { register_module("block", block); }
#ifdef COUNTERPART
  template <class Run>
  Loss loss(Run&, const Batch& batch) {
    return {block(batch.input).sum(), batch.input.numel()};
  }
#else
  Loss loss(const Batch& batch) { return {block(batch.input).sum(), batch.input.numel()}; }
#endif
};
TORCH_MODULE(Runless);

int main() {
  Trainer<Runless> trainer{Runless()};
  trainer.step(Batch{});
}
