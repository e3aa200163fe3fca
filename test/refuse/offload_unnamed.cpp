// `UnknownChoice<Offload<Unnamed>, Offload<Off>, Offload<CPU>,`
// `Offload<Unnamed> does not exist; there is Offload<Off>, Offload<CPU>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), Offload<Off>{}};
#else
  Trainer trainer{Net(), Offload{}};
#endif
  trainer.step(Batch{});
}
