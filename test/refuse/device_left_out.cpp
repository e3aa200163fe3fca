// `ValueMissing<On>` `no default value` `Give one to the constructor`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, On> trainer{Net(), On{torch::kCPU}};
#else
  Trainer<Net, On> trainer{Net()};
#endif
  trainer.step(Batch{});
}
