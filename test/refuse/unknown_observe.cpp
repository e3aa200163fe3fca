// `UnknownChoice<Observe<Off>, Observe<Memory>>` `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Observe<Memory>> trainer{Net()};
#else
  Trainer<Net, Observe<Off>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
