// `MeantAnotherPolicy<Selective, Checkpoint<Selective>>`
// `Selective is not a policy; write Checkpoint<Selective>`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), AdamW{}, Checkpoint<Selective>{}};
#else
  Trainer trainer{Net(), AdamW{}, Selective{}};
#endif
  trainer.step(Batch{});
}
