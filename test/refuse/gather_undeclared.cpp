// `UndeclaredHook<Halves, hook::gather, declaration::moves_parameters>`
// `the Mechanism of Halves has the hook gather and does not declare moves_parameters`
// `called only where it is declared` `static constexpr bool moves_parameters = true;`
#include "net.hpp"

struct Halves {
  using axis = ikebana::axis::prune;
};
template <>
struct ikebana::Mechanism<Halves> : PruneHooks {
#ifdef COUNTERPART
  static constexpr bool moves_parameters = true;
#endif
  Halves values;
  explicit Mechanism(Halves v) : values(v) {}
  Tensors gather(const Unit&, Tensors masters) {
    for (at::Tensor& t : masters) t = t * 0.5;
    return masters;
  }
};

int main() {
  Trainer<Net, Halves> trainer{Net()};
  trainer.step(Batch{});
}
