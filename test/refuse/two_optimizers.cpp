// `TwoPoliciesOnOneAxis<axis::optimizer, AdamW, SGD>` `takes one answer` `Keep the one you want`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, SGD> trainer{Net()};
#else
  Trainer<Net, AdamW, SGD> trainer{Net()};
#endif
  trainer.step(Batch{});
}
