// `UnknownChoice<Observe<Off>, Observe<Memory>>`
// `Observe<Off> does not exist; there is Observe<Memory>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Observe<Memory>> trainer{Net()};
#else
  Trainer<Net, Observe<Off>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
