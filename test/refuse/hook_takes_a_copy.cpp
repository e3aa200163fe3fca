// `HookTakesOtherArguments<Doubles, hook::clip>`
// `the Mechanism of Doubles has the hook clip with other parameters`
// `or its changes would be lost` `what a hook changes is passed by reference`
#include "net.hpp"

struct Doubles {
  using axis = ikebana::axis::clip;
  double strength = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Doubles> : ClipHooks {
  Doubles values;
  explicit Mechanism(Doubles v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    for (at::Tensor& g : gradients.values) g = g * 2;
  }
};
#else
template <>
struct ikebana::Mechanism<Doubles> : ClipHooks {
  Doubles values;
  explicit Mechanism(Doubles v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients gradients, Ranks&) {
    for (at::Tensor& g : gradients.values) g = g * 2;
  }
};
#endif

int main() {
  Trainer<Net, Doubles> trainer{Net()};
  trainer.step(Batch{});
}
