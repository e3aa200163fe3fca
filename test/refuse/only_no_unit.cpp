// `NamesNoUnit<Checkpoint<Only<Bare>>, Bare, Net>`
// `Checkpoint<Only<Bare>> names Bare, which is not a unit of Net`
// `names a module that the model does not declare as a unit` `Add it to`
// `choose by a rule: Freeze<>{.match = named(`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Only<Block>>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<Only<Bare>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
