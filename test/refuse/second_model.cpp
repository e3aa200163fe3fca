// `SecondModel<Net, Bare>` `trains one model` `Make a trainer for each`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, Bare> trainer{Net()};
#endif
  trainer.step(Batch{});
}
