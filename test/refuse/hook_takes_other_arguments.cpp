// `HookTakesOtherArguments<Misfit, hook::update>`
// `the Mechanism of Misfit has the hook update with other parameters`
// `whose parameters, result or const are not those` `Write it as ikebana/hooks.hpp does`
#include "net.hpp"

struct Misfit {
  using axis = ikebana::axis::optimizer;
  double strength = 1;
};
#ifdef COUNTERPART
template <>
struct ikebana::Mechanism<Misfit> : OptimizerHooks {
  Misfit values;
  explicit Mechanism(Misfit v) : values(v) {}
  void update(const Masters&, StepGradients&) noexcept {}
};
#else
template <>
struct ikebana::Mechanism<Misfit> : OptimizerHooks {
  Misfit values;
  explicit Mechanism(Misfit v) : values(v) {}
  void update(Masters&, StepGradients&) noexcept {}
};
#endif

int main() {
  Trainer<Net, Misfit> trainer{Net()};
  trainer.step(Batch{});
}
