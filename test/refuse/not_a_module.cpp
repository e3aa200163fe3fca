// `NotAModel<int>` `int is not a module that is defined here`
// `the model of a recipe must be a module` `Write a holder made by TORCH_MODULE`
// `with its definition included`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), AdamW{}};
#else
  Trainer trainer{5, AdamW{}};
#endif
  trainer.step(Batch{});
}
