// `SecondModel<Net, Bare>` `Net and Bare are both models; a trainer takes one`
// `a trainer trains one model` `Make a trainer for each`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, Bare> trainer{Net()};
#endif
  trainer.step(Batch{});
}
