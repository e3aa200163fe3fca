// `NotAModel<Declared>` `not a module that is defined here` `include its definition`
#include "net.hpp"

struct Declared;

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{()};
#else
  Trainer<Declared, AdamW> trainer{()};
#endif
  trainer.step(Batch{});
}
