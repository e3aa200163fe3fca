// `ScriptedModel<torch::jit::Module>`
// `torch::jit::Module is a program of TorchScript, not a module of C++`
// `Write its layers as a torch::nn::Module` `scripts/pth_to_safetensors.py`
// `capture it in an objective`
#include "net.hpp"

#include <torch/script.h>

int main() {
#ifdef COUNTERPART
  torch::jit::Module teacher("teacher");
  auto distil = [=](auto& run, Net& net, const Batch& batch) mutable {
    at::Tensor wanted = teacher.forward({batch.input}).toTensor();
    return Loss{(net->forward(run, batch.input) - wanted).square().sum(), wanted.numel()};
  };
  Trainer trainer{Net(), distil, AdamW{}};
#else
  Trainer trainer{torch::jit::Module("net"), AdamW{}};
#endif
  trainer.step(Batch{});
}
