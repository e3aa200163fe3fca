// `UnknownChoice<Checkpoint<Unnamed>, Checkpoint<Off>, Checkpoint<Full>,`
// `Checkpoint<Unnamed> does not exist; there is Checkpoint<Off>, Checkpoint<Full>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), Checkpoint<Full>{}};
#else
  Trainer trainer{Net(), Checkpoint{}};
#endif
  trainer.step(Batch{});
}
