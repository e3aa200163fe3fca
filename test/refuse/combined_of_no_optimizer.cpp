// `PartIsNoOptimizer<Combined<AdamW, ClipGradNorm>, ClipGradNorm>`
// `Combined<AdamW, ClipGradNorm> holds ClipGradNorm, which is not an optimizer`
// `both arguments of Combined must be optimizers` `Write e.g. Combined<Muon, Lion>`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Combined<AdamW, SGD>> trainer{Net()};
#else
  Trainer<Net, Combined<AdamW, ClipGradNorm>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
