// `UnknownChoice<Capture<Full>, Capture<Off>>`
// `Capture<Full> does not exist; there is Capture<Off>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Capture<Off>> trainer{Net()};
#else
  Trainer<Net, Capture<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
