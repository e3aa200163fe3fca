// `NeedsAllGradients<InBackward<SGD>, Precision<FP16>>`
// `Precision<FP16> needs all gradients before the update, and InBackward<SGD>`
// `must see all gradients first` `Remove that policy` `without InBackward`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, InBackward<SGD>, Precision<BF16>> trainer{Net()};
#else
  Trainer<Net, InBackward<SGD>, Precision<FP16>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
