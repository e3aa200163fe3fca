// `BadMechanism<Valueless>` `must derive from Hooks` `explicit Mechanism`
#include "net.hpp"

struct Valueless {
  using axis = ikebana::axis::clip;
  double strength = 1;
};
#ifdef TWIN
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
