// `HookTakesOtherArguments<Halves, hook::clip>`
// `the Mechanism of Halves has the hook clip with other parameters`
// `whose parameters, result or const are not those` `Write it as ikebana/hooks.hpp does`
#include "net.hpp"

struct Halves {
  using axis = ikebana::axis::clip;
};
template <>
struct ikebana::Mechanism<Halves> : ClipHooks {
  Halves values;
  explicit Mechanism(Halves v) : values(v) {}
#ifdef COUNTERPART
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&){
#else
  void clip(StepGradients& gradients) {
#endif
      for (const at::Tensor& gradient : gradients.values) gradient.div_(2);
}
}
;

int main() {
  Trainer<Net, Halves> trainer{Net()};
  trainer.step(Batch{});
}
