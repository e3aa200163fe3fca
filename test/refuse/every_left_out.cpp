// `ValueMissing<Checkpoint<Every<` `no default value`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Every<>>> trainer{Net(), Checkpoint<Every<>>{.every = 2}};
#else
  Trainer<Net, Checkpoint<Every<>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
