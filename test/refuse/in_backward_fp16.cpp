// `NeedsAllGradients<InBackward<SGD>, Precision<FP16>>` `Take the second away`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, InBackward<SGD>, Precision<BF16>> trainer{Net()};
#else
  Trainer<Net, InBackward<SGD>, Precision<FP16>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
