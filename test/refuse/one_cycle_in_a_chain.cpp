// `SetsRate<ChainedScheduler<PerEpoch<OneCycleLR>>, OneCycleLR>`
// `ChainedScheduler<PerEpoch<OneCycleLR>> holds OneCycleLR, which sets the rate itself`
// `OneCycleLR and CyclicLR replace the rate` `Write it alone, or as one of the schedules`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, ChainedScheduler<PerEpoch<StepLR>>> trainer{Net()};
#else
  Trainer<Net, ChainedScheduler<PerEpoch<OneCycleLR>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
