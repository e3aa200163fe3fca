// `RenamedHook<KeepsCopies, hook::keeps_working, hook::keeps_gathered>`
// `the Mechanism of KeepsCopies has the hook keeps_working, which is keeps_gathered now`
// `so it would never be called` `Write the new name`
#include "net.hpp"

struct KeepsCopies {
  using axis = ikebana::axis::precision;
};
template <>
struct ikebana::Mechanism<KeepsCopies> : PrecisionHooks {
  static constexpr bool moves_parameters = true;
#ifdef COUNTERPART
  static constexpr bool keeps_gathered = true;
#else
  static constexpr bool keeps_working = true;
#endif
  KeepsCopies values;
  explicit Mechanism(KeepsCopies v) : values(v) {}
  Tensors gather(const Unit&, const Tensors& masters) {
    Tensors copies;
    for (const at::Tensor& master : masters) copies.push_back(master.clone());
    return copies;
  }
};

int main() {
  Trainer<Net, KeepsCopies> trainer{Net()};
  trainer.step(Batch{});
}
