// `NotAnOptimizer<ClipGradNorm>`
// `InBackward<ClipGradNorm> holds ClipGradNorm, which is not an optimizer`
// `the argument of InBackward must be an optimizer` `Write e.g. InBackward<AdamW>`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, InBackward<Adam>> trainer{Net()};
#else
  Trainer<Net, InBackward<ClipGradNorm>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
