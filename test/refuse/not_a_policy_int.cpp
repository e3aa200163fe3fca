// `NotAPolicy<int>` `not a policy` `Write a word of`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, int> trainer{Net()};
#endif
  trainer.step(Batch{});
}
