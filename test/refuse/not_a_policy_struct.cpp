// `NotAPolicy<MyPolicy>` `not a policy` `using axis = axis::clip`
#include "net.hpp"

struct MyPolicy {
  double strength = 1;
};

int main() {
#ifdef TWIN
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, MyPolicy> trainer{Net()};
#endif
  trainer.step(Batch{});
}
