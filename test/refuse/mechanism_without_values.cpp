// `BadMechanism<Valueless, ClipHooks>` `the Mechanism of Valueless lacks ClipHooks or values`
// `must derive from the hooks` `YourPolicy values; explicit Mechanism`
#include "net.hpp"

struct Valueless {
  using axis = ikebana::axis::clip;
  double strength = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Valueless> : ClipHooks {
  Valueless values;
  explicit Mechanism(Valueless v) : values(v) {}
};
#else
template <>
struct ikebana::Mechanism<Valueless> : ClipHooks {};
#endif

int main() {
  Trainer<Net, Valueless> trainer{Net()};
  trainer.step(Batch{});
}
