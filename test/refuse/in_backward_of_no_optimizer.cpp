// `NotAnOptimizer<ClipGradNorm>` `Write e.g. InBackward<AdamW>`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, InBackward<Adam>> trainer{Net()};
#else
  Trainer<Net, InBackward<ClipGradNorm>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
