// `UnknownChoice<Prune<Full>, Prune<Off>>` `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Prune<Off>> trainer{Net()};
#else
  Trainer<Net, Prune<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
