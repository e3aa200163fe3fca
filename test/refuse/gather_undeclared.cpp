// `UndeclaredHook<HalvesWeights, hook::gather, hook::moves_parameters>`
// `the Mechanism of HalvesWeights has the hook gather and does not declare moves_parameters`
// `called only where it is declared` `static constexpr bool moves_parameters = true;`
#include "net.hpp"

struct HalvesWeights {
  using axis = ikebana::axis::precision;
};
template <>
struct ikebana::Mechanism<HalvesWeights> : PrecisionHooks {
#ifdef COUNTERPART
  static constexpr bool moves_parameters = true;
#endif
  HalvesWeights values;
  explicit Mechanism(HalvesWeights v) : values(v) {}
  Tensors gather(const Unit&, Tensors masters) {
    for (at::Tensor& t : masters) t = t * 0.5;
    return masters;
  }
};

int main() {
  Trainer<Net, HalvesWeights> trainer{Net()};
  trainer.step(Batch{});
}
