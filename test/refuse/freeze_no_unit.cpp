// `NamesNoUnit<Freeze<Block, torch::nn::Linear>, torch::nn::Linear, Net>`
// `does not declare as a unit` `Freeze<>{.match = named(`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Freeze<Block>> trainer{Net()};
#else
  Trainer<Net, Freeze<Block, torch::nn::Linear>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
