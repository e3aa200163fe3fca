// `ForwardTakesOtherArguments<TwoInputsImpl, at::Tensor>` `cannot be called with`
// `Write the objective as a lambda`
#include "net.hpp"

struct TwoInputsImpl : torch::nn::Module {
  Block block;
  TwoInputsImpl() { register_module("block", block); }
#ifdef TWIN
  torch::Tensor forward(torch::Tensor x) { return block(x); }
#else
  torch::Tensor forward(torch::Tensor x, torch::Tensor mask) { return block(x) * mask; }
#endif
};
TORCH_MODULE(TwoInputs);

int main() {
  Trainer<TwoInputs, MSELoss> trainer{TwoInputs()};
  trainer.step(Batch{});
}
