// `TwoPoliciesSet<axis::schedule, StepLR, LambdaLR>`
// `StepLR and LambdaLR both set the schedule; a trainer takes one`
// `a trainer takes one policy per axis` `Remove one of the two`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, StepLR, EMA> trainer{Net(), StepLR{.step_size = 10}};
#else
  Trainer<Net, StepLR, LambdaLR, EMA> trainer{Net(), StepLR{.step_size = 10}};
#endif
  trainer.step(Batch{});
}
