// `UnknownChoice<Checkpoint<BF16>, Checkpoint<Off>, Checkpoint<Full>, Checkpoint<Selective>`
// `Checkpoint<BF16> does not exist; there is Checkpoint<Off>, Checkpoint<Full>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Full>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<BF16>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
