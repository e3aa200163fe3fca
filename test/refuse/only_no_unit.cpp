// `NamesNoUnit<Checkpoint<Only<Bare>>, Bare, Net>` `does not declare as a unit` `choose by a rule`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Only<Block>>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<Only<Bare>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
