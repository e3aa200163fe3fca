// The compiler: `redefinition of`, of the library's own mechanism.
#include "net.hpp"

#ifdef COUNTERPART
struct SecondLion {
  using axis = ikebana::axis::optimizer;
};
#else
using SecondLion = Lion;
#endif
template <>
struct ikebana::Mechanism<SecondLion> : OptimizerHooks {
  SecondLion values;
  explicit Mechanism(SecondLion v) : values(v) {}
};

int main() {
  Trainer<Net, SecondLion> trainer{Net()};
  trainer.step(Batch{});
}
