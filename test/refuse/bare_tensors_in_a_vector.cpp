// `ListIsOneBatch<std::vector<at::Tensor` `is one batch, and the loss takes a tensor`
// `std::vector<std::tuple<at::Tensor>> for microbatches` `Ragged{tensors}`
#include "net.hpp"

struct SpeakerImpl : torch::nn::Module {
  Block block;
  SpeakerImpl() { register_module("block", block); }
  template <class Run>
  Loss loss(Run&, const torch::Tensor& x) {
    return {block(x).sum(), x.numel()};
  }
};
TORCH_MODULE(Speaker);

int main() {
  Trainer<Speaker> trainer{Speaker()};
#ifdef COUNTERPART
  trainer.step(std::vector<std::tuple<torch::Tensor>>());
#else
  trainer.step(std::vector<torch::Tensor>());
#endif
}
