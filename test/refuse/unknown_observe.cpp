// `UnknownObserve<Off>` `Observe does not know this choice` `Observe<Memory>`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Observe<Memory>> trainer{Net()};
#else
  Trainer<Net, Observe<Off>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
