// `ValueMissing<On>` `On has no default value` `has no default value` `Give one to the constructor`
// `Accumulate<>{.microbatches = 8}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, On> trainer{Net(), On{torch::kCPU}};
#else
  Trainer<Net, On> trainer{Net()};
#endif
  trainer.step(Batch{});
}
