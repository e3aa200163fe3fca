// `UnknownChoice<Capture<Full>, Capture<Off>>` `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Capture<Off>> trainer{Net()};
#else
  Trainer<Net, Capture<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
