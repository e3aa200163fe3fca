// `NotAModel<Declared>` `Declared is not a module that is defined here`
// `the model of a recipe must be a module` `Write a holder made by TORCH_MODULE`
// `with its definition included`
#include "net.hpp"

struct Declared;
Declared& make_declared();

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Declared, AdamW> trainer{make_declared()};
#endif
  trainer.step(Batch{});
}
