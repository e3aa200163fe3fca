// `HookTakesOtherArguments<Measures, hook::close_step>`
// `the Mechanism of Measures has the hook close_step with other parameters`
// `or its changes would be lost` `what a hook changes is passed by reference`
#include "net.hpp"

struct Measures {
  using axis = ikebana::axis::clip;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Measures> : ClipHooks {
  Measures values;
  explicit Mechanism(Measures v) : values(v) {}
  template <class Ranks>
  void close_step(StepGradients& gradients, Ranks&) {
    gradients.norm_is_current = false;
  }
};
#else
template <>
struct ikebana::Mechanism<Measures> : ClipHooks {
  Measures values;
  explicit Mechanism(Measures v) : values(v) {}
  template <class Ranks>
  void close_step(StepGradients gradients, Ranks&) {
    gradients.norm_is_current = false;
  }
};
#endif

int main() {
  Trainer<Net, Measures> trainer{Net()};
  trainer.step(Batch{});
}
