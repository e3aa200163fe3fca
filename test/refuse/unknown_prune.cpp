// `UnknownChoice<Prune<Full>, Prune<Off>>` `Prune<Full> does not exist; there is Prune<Off>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Prune<Off>> trainer{Net()};
#else
  Trainer<Net, Prune<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
