// `MayThrowAfterUpdate<Throwing>` `the Mechanism of Throwing may throw after the update`
// `would leave a step half done` `Mark its after_update` `noexcept`
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
  void update(const Masters&, StepGradients&) {}  // may throw: it is undone
  void end_step(const StepGradients&, Report&) noexcept {}
};
#else
template <>
struct ikebana::Mechanism<Throwing> : OptimizerHooks {
  Throwing values;
  explicit Mechanism(Throwing v) : values(v) {}
  void end_step(const StepGradients&, Report&) {}
};
#endif

int main() {
  Trainer<Net, Throwing> trainer{Net()};
  trainer.step(Batch{});
}
