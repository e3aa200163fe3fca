// `FollowsMetric<SequentialLR<LinearLR, ReduceLROnPlateau>, ReduceLROnPlateau>`
// `SequentialLR<LinearLR, ReduceLROnPlateau> holds ReduceLROnPlateau, which follows a metric`
// `follows the metric of each epoch` `Write it alone; its warmup_steps is a warm-up in steps`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, ReduceLROnPlateau> trainer{Net()};
#else
  Trainer<Net, SequentialLR<LinearLR, ReduceLROnPlateau> > trainer{Net()};
#endif
  trainer.step(Batch{});
}
