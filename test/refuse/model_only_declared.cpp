// `NotAModel<Declared>` `not a module that is defined here` `with its definition included`
#include "net.hpp"

struct Declared;
Declared& make_declared();

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<Declared, AdamW> trainer{make_declared()};
#endif
  trainer.step(Batch{});
}
