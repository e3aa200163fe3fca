// `PolicyTwice<Observe<Memory>>` `written twice` `Take one of them away`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Observe<Memory>> trainer{Net()};
#else
  Trainer<Net, Observe<Memory>, Observe<Memory>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
