// `PartIsNoSchedule<PerEpoch<AdamW>, AdamW>` `PerEpoch<AdamW> holds AdamW, which is no schedule`
// `must be schedules` `Write e.g. SequentialLR<LinearLR, CosineAnnealingLR>`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, PerEpoch<StepLR>> trainer{Net()};
#else
  Trainer<Net, PerEpoch<AdamW>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
