// `ModuleByValue<PlainImpl>`
// `PlainImpl is a module by value; write std::make_shared<PlainImpl>()`
// `a module of LibTorch is shared by a pointer` `Write std::make_shared`
#include "net.hpp"

struct PlainImpl : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  PlainImpl() { linear = register_module("linear", torch::nn::Linear(4, 4)); }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
};

int main() {
#ifdef COUNTERPART
  Trainer trainer{std::make_shared<PlainImpl>(), MSELoss{}};
#else
  Trainer trainer{PlainImpl(), MSELoss{}};
#endif
  trainer.step(Batch{});
}
