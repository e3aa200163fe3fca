// `UnknownChoice<Freeze<Block>, Freeze<Off>>` `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Freeze<Off>> trainer{Net()};
#else
  Trainer<Net, Freeze<Block>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
