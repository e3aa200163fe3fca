// `NotAModel<NotDerived>` `NotDerived is not a module that is defined here`
// `the model of a recipe must be a module` `Write a holder made by TORCH_MODULE`
// `with its definition included`
#include "net.hpp"

struct NotDerived {
  torch::Tensor weight;
};

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<NotDerived, AdamW> trainer{NotDerived()};
#endif
  trainer.step(Batch{});
}
