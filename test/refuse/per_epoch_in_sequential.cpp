// `CountsEpochs<SequentialLR<LinearLR, PerEpoch<StepLR>>, PerEpoch<StepLR>>`
// `SequentialLR<LinearLR, PerEpoch<StepLR>> holds PerEpoch<StepLR>, which counts epochs`
// `it can neither begin at a milestone`
// `Write it outermost: PerEpoch<SequentialLR<LinearLR, StepLR>>`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, PerEpoch<SequentialLR<LinearLR, StepLR>>> trainer{Net()};
#else
  Trainer<Net, SequentialLR<LinearLR, PerEpoch<StepLR>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
