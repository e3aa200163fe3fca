// `NotAModel<NotDerived>` `not a module` `derived from torch::nn::Module`
#include "net.hpp"

struct NotDerived {
  torch::Tensor weight;
};

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{()};
#else
  Trainer<NotDerived, AdamW> trainer{()};
#endif
  trainer.step(Batch{});
}
