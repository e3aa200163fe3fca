// `NoScheduleWithin<SequentialLR<>>` `SequentialLR<> holds no schedule`
// `a schedule of schedules needs at least one`
// `Write e.g. SequentialLR<LinearLR, CosineAnnealingLR>`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, SequentialLR<StepLR>> trainer{Net()};
#else
  Trainer<Net, SequentialLR<>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
