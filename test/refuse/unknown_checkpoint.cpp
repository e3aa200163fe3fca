// `UnknownChoice<Checkpoint<BF16>, Checkpoint<Off>, Checkpoint<Full>, Checkpoint<Selective>`
// `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Full>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<BF16>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
