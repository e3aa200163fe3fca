// `PolicyTwice<Observe<Memory>>` `Observe<Memory> is written twice`
// `a recipe names each policy once` `Remove one of the two`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Observe<Memory>> trainer{Net()};
#else
  Trainer<Net, Observe<Memory>, Observe<Memory>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
