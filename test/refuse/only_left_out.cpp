// `ValueMissing<Checkpoint<Only<` `Checkpoint<Only<>> has no default value` `has no default value`
// `Give one to the constructor` `Accumulate<>{.microbatches = 8}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto is_block = [](const Unit& unit) { return unit.name != "other"; };
  Trainer<Net, Checkpoint<Only<>>> trainer{Net(), Checkpoint<Only<>>{.match = is_block}};
#else
  Trainer<Net, Checkpoint<Only<>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
