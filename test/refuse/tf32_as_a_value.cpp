// `MeantAnotherPolicy<TF32, Precision<TF32>>` `TF32 is not a policy; write Precision<TF32>`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), AdamW{}, Precision<TF32>{}};
#else
  Trainer trainer{Net(), AdamW{}, TF32{}};
#endif
  trainer.step(Batch{});
}
