// `NotAPolicy<int>` `int is not a policy` `one of its types is not a policy`
// `Remove it, write a policy of`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, int> trainer{Net()};
#endif
  trainer.step(Batch{});
}
