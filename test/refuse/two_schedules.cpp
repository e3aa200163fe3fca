// `TwoPoliciesOnOneAxis<axis::schedule, StepLR, LambdaLR>` `answer the same question` `Keep the one`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, StepLR, EMA> trainer{Net(), StepLR{.step_size = 10}};
#else
  Trainer<Net, StepLR, LambdaLR, EMA> trainer{Net(), StepLR{.step_size = 10}};
#endif
  trainer.step(Batch{});
}
