// `ScriptedModel<std::shared_ptr<torch::jit::Module>>`
// `std::shared_ptr<torch::jit::Module> is a program of TorchScript, not a module of C++`
// `capture it in an objective` `(run, model, batch) -> Loss`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer trainer{Net(), std::make_shared<torch::jit::Module>("teacher")};
#endif
  trainer.step(Batch{});
}
