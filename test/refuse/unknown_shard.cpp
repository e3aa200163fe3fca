// `UnknownChoice<Shard<Full>, Shard<Off>>` `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Shard<Off>> trainer{Net()};
#else
  Trainer<Net, Shard<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
