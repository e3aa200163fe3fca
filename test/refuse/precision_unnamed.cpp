// `UnknownChoice<Precision<Unnamed>, Precision<FP32>, Precision<TF32>, Precision<BF16>,`
// `Precision<Unnamed> does not exist; there is Precision<FP32>, Precision<TF32>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), Precision<TF32>{}};
#else
  Trainer trainer{Net(), Precision{}};
#endif
  trainer.step(Batch{});
}
