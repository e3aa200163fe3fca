// `BadMechanism<Hookless, ClipHooks>` `the Mechanism of Hookless lacks ClipHooks or values`
// `must derive from the hooks` `YourPolicy values; explicit Mechanism`
#include "net.hpp"

struct Hookless {
  using axis = ikebana::axis::clip;
  double strength = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Hookless> : ClipHooks {
  Hookless values;
  explicit Mechanism(Hookless v) : values(v) {}
};
#else
template <>
struct ikebana::Mechanism<Hookless> {
  Hookless values;
  explicit Mechanism(Hookless v) : values(v) {}
};
#endif

int main() {
  Trainer<Net, Hookless> trainer{Net()};
  trainer.step(Batch{});
}
