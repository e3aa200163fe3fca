// `ForwardTakesOtherArguments<TwoInputsImpl, at::Tensor>`
// `the forward of TwoInputsImpl cannot be called with at::Tensor`
// `cannot be called with the batch's input alone` `Write the objective as a lambda`
#include "net.hpp"

struct TwoInputsImpl : torch::nn::Module {
  Block block;
  TwoInputsImpl() { register_module("block", block); }
#ifdef COUNTERPART
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
