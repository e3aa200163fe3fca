// `NeedsUnits<PerUnit, Bare>` `PerUnit works unit by unit, and Bare declares no units`
// `the model declares no units` `Write` `specialise UnitsOf`
#include "net.hpp"

struct PerUnit {
  using axis = ikebana::axis::precision;
  static constexpr bool needs_units = true;
};
template <>
struct ikebana::Mechanism<PerUnit> : PrecisionHooks {
  PerUnit values;
  explicit Mechanism(PerUnit v) : values(v) {}
};

int main() {
#ifdef COUNTERPART
  Trainer<Net, MSELoss, PerUnit> trainer{Net()};
#else
  Trainer<Bare, MSELoss, PerUnit> trainer{Bare()};
#endif
  trainer.step(Batch{});
}
