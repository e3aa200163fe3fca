// `NotAnAxis<Strange, int>` `no question that a recipe answers` `using axis = axis::clip`
#include "net.hpp"

struct Strange {
  using axis = int;
};

int main() {
#ifdef TWIN
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, Strange> trainer{Net()};
#endif
  trainer.step(Batch{});
}
