// `CountBelowOne<Checkpoint<Every<0>>>` `must be one at least` `Checkpoint<Every<2>>`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Every<1>>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<Every<0>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
