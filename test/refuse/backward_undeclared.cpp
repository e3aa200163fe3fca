// `UndeclaredHook<HearsEnds, hook::after_unit_backward, hook::listens_to_backward>`
// `the Mechanism of HearsEnds has the hook after_unit_backward and does not declare`
// `called only where it is declared` `listens_to_backward`
#include "net.hpp"

struct HearsEnds {
  using axis = ikebana::axis::observe;
};
template <>
struct ikebana::Mechanism<HearsEnds> : ObserveHooks {
#ifdef COUNTERPART
  static constexpr bool listens_to_backward = true;
#endif
  HearsEnds values;
  explicit Mechanism(HearsEnds v) : values(v) {}
  void after_unit_backward(const Unit&) {}
};

int main() {
  Trainer<Net, HearsEnds> trainer{Net()};
  trainer.step(Batch{});
}
