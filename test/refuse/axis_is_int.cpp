// `NotAnAxis<Strange, int>` `Strange has the axis int, which no recipe has`
// `must be one of namespace axis` `Write one of them` `using axis = axis::clip`
#include "net.hpp"

struct Strange {
  using axis = int;
};

int main() {
#ifdef COUNTERPART
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net, Strange> trainer{Net()};
#endif
  trainer.step(Batch{});
}
