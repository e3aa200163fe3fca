// `MayThrowInUpdate<Throwing>` `the Mechanism of Throwing may throw after prepare`
// `would leave an update half done` `Mark its update` `noexcept`
#include "net.hpp"

struct Throwing {
  using axis = ikebana::axis::optimizer;
  double strength = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Throwing> : OptimizerHooks {
  Throwing values;
  explicit Mechanism(Throwing v) : values(v) {}
  void update(const Masters&, StepGradients&) noexcept {}
};
#else
template <>
struct ikebana::Mechanism<Throwing> : OptimizerHooks {
  Throwing values;
  explicit Mechanism(Throwing v) : values(v) {}
  void update(const Masters&, StepGradients&) {}
};
#endif

int main() {
  Trainer<Net, Throwing> trainer{Net()};
  trainer.step(Batch{});
}
