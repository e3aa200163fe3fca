// The compiler: `redefinition of`, of the library's own mechanism.
#include "net.hpp"

#ifdef COUNTERPART
struct OwnLion {
  using axis = ikebana::axis::optimizer;
};
#else
using OwnLion = Lion;
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
