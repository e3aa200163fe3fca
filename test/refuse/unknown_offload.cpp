// `UnknownChoice<Offload<Memory>, Offload<Off>>` `does not have` `Leave the word out`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Offload<Off>> trainer{Net()};
#else
  Trainer<Net, Offload<Memory>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
