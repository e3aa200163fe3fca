// `HookTakesOtherArguments<Falling, hook::rate>`
// `the Mechanism of Falling has the hook rate with other parameters`
// `are not those of the hook of that name` `Write it as ikebana/hooks.hpp does`
#include "net.hpp"

struct Falling {
  using axis = ikebana::axis::schedule;
};
template <>
struct ikebana::Mechanism<Falling> : ScheduleHooks {
  Falling values;
  explicit Mechanism(Falling v) : values(v) {}
#ifdef COUNTERPART
  double rate(double base, std::int64_t step) const { return base / (1.0 + double(step)); }
#else
  double rate(std::int64_t step, double base) const { return base / (1.0 + double(step)); }
#endif
};

int main() {
  Trainer<Net, SequentialLR<LinearLR, Falling>> trainer{Net()};
  trainer.step(Batch{});
}
