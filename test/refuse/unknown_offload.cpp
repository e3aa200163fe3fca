// `UnknownChoice<Offload<Memory>, Offload<Off>, Offload<CPU>,`
// `Offload<Memory> does not exist; there is Offload<Off>, Offload<CPU>, Offload<CPU,`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Offload<Off>> trainer{Net()};
#else
  Trainer<Net, Offload<Memory>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
