// `NamesNoUnit<Freeze<Block, torch::nn::Linear>, torch::nn::Linear, Net>`
// `Freeze<Block, torch::nn::Linear> names torch::nn::Linear, which is not a unit of Net`
// `names a module that the model does not declare as a unit` `Add it to`
// `choose by a rule: Freeze<>{.match = named(`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Freeze<Block>> trainer{Net()};
#else
  Trainer<Net, Freeze<Block, torch::nn::Linear>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
