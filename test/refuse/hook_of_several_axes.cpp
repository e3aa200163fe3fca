// `HookNeverAsked<Gathers, axis::clip, hook::gather, axis::shard, axis::offload, axis::precision>`
// `has the hook gather, which is asked of shard, offload, precision, and not of`
// `so it would never be called`
#include "net.hpp"

struct Gathers {
  using axis = ikebana::axis::clip;
};
template <>
struct ikebana::Mechanism<Gathers> final : ClipHooks {
  Gathers values;
  explicit Mechanism(Gathers v) : values(v) {}
#ifdef COUNTERPART
  double rate = 1;  // a field is no hook
  double base_rate() { return rate; }
#else
  Tensors gather(const Unit&, Tensors masters) { return masters; }
#endif
};

int main() {
  Trainer<Net, Gathers> trainer{Net()};
  trainer.step(Batch{});
}
