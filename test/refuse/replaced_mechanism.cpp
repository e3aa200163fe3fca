// `ReplacedMechanism<InBackward<Lion>>`
// `InBackward<Lion> is a policy of ikebana, and its Mechanism is not`
// `takes the place of the library's` `Define a policy of your own`
#include "net.hpp"

#ifdef COUNTERPART
struct OwnLion {
  using axis = ikebana::axis::optimizer;
};
#else
using OwnLion = InBackward<Lion>;
#endif
template <>
struct ikebana::Mechanism<OwnLion> : OptimizerHooks {
  OwnLion values;
  explicit Mechanism(OwnLion v) : values(v) {}
};

int main() {
  Trainer<Net, OwnLion> trainer{Net()};
  trainer.step(Batch{});
}
