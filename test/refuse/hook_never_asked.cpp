// `HookNeverAsked<Watches, axis::observe, hook::clip, axis::clip>`
// `the Mechanism of Watches has the hook clip, which is asked of clip, and not of observe`
// `so it would never be called` `Write a policy for each axis` `needs another name`
#include "net.hpp"

struct Watches {
#ifdef COUNTERPART
  using axis = ikebana::axis::clip;
#else
  using axis = ikebana::axis::observe;
#endif
};
template <>
struct ikebana::Mechanism<Watches> : HooksOf<Watches::axis> {
  Watches values;
  explicit Mechanism(Watches v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients&, Ranks&) {}
};

int main() {
  Trainer<Net, Watches> trainer{Net()};
  trainer.step(Batch{});
}
