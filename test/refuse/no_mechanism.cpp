// `NoMechanism<Unmade>` `Unmade has no Mechanism` `no mechanism carries out a policy`
// `struct Mechanism<YourPolicy>`
#include "net.hpp"

struct Unmade {
  using axis = ikebana::axis::clip;
  double strength = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Unmade> : ClipHooks {
  Unmade values;
  explicit Mechanism(Unmade v) : values(v) {}
};
#endif

int main() {
  Trainer<Net, Unmade> trainer{Net()};
  trainer.step(Batch{});
}
