// `BadMechanism<Valueless>` `the Mechanism of Valueless lacks Hooks or values`
// `must derive from Hooks` `YourPolicy values; explicit Mechanism`
#include "net.hpp"

struct Valueless {
  using axis = ikebana::axis::clip;
  double strength = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Valueless> : Hooks {
  Valueless values;
  explicit Mechanism(Valueless v) : values(v) {}
};
#else
template <>
struct ikebana::Mechanism<Valueless> : Hooks {};
#endif

int main() {
  Trainer<Net, Valueless> trainer{Net()};
  trainer.step(Batch{});
}
