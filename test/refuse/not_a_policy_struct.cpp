// `NotAPolicy<MyPolicy>` `MyPolicy is not a policy` `one of its types is not a policy`
// `Remove it, write a policy of`
#include "net.hpp"

struct MyPolicy {
  double strength = 1;
};

int main() {
#ifdef COUNTERPART
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, MyPolicy> trainer{Net()};
#endif
  trainer.step(Batch{});
}
