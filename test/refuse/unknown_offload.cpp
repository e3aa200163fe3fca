// `UnknownChoice<Offload<Memory>, Offload<Off>>` `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Offload<Off>> trainer{Net()};
#else
  Trainer<Net, Offload<Memory>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
