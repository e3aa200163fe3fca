// `NotAModel<NotDerived>` `not a module` `derived from torch::nn::Module`
#include "net.hpp"

struct NotDerived {
  torch::Tensor weight;
};

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<NotDerived, AdamW> trainer{NotDerived()};
#endif
  trainer.step(Batch{});
}
