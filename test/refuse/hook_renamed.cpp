// `RenamedHook<KeepsFloats, hook::give_back, hook::restore_dtype>`
// `the Mechanism of KeepsFloats has the hook give_back, which is restore_dtype now`
// `so it would never be called` `Write the new name`
#include "net.hpp"

struct KeepsFloats {
  using axis = ikebana::axis::precision;
};
template <>
struct ikebana::Mechanism<KeepsFloats> : PrecisionHooks {
  KeepsFloats values;
  explicit Mechanism(KeepsFloats v) : values(v) {}
#ifdef COUNTERPART
  Tensors restore_dtype(const Unit&, Tensors masters) { return masters; }
#else
  Tensors give_back(const Unit&, Tensors masters) { return masters; }
#endif
};

int main() {
  Trainer<Net, KeepsFloats> trainer{Net()};
  trainer.step(Batch{});
}
