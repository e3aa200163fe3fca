// `ValueMissing<Checkpoint<Only<` `no default value`
#include "net.hpp"

int main() {
#ifdef TWIN
  auto is_block = [](const Unit& unit) { return unit.name != "other"; };
  Trainer<Net, Checkpoint<Only<>>> trainer{Net(), Checkpoint<Only<>>{.match = is_block}};
#else
  Trainer<Net, Checkpoint<Only<>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
