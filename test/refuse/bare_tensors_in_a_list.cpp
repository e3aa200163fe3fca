// `OneBatchOrSeveral<std::` `could be one batch or several`
// `std::vector<at::Tensor> for one batch` `Ragged{tensors}`
// `std::vector<std::tuple<at::Tensor>> for microbatches`
#include "net.hpp"

#include <list>

struct ListenerImpl : torch::nn::Module {
  Block block;
  ListenerImpl() { register_module("block", block); }
  template <class Run>
  Loss loss(Run&, const torch::Tensor& x) {
    return {block(x).sum(), x.numel()};
  }
};
TORCH_MODULE(Listener);

int main() {
  Trainer<Listener> trainer{Listener()};
#ifdef COUNTERPART
  trainer.step(std::list<std::tuple<torch::Tensor>>());
#else
  trainer.step(std::list<torch::Tensor>());
#endif
}
