// `UnknownChoice<Precision<double>, Precision<FP32>, Precision<TF32>, Precision<BF16>,`
// `Precision<double> does not exist; there is Precision<FP32>, Precision<TF32>, Precision<BF16>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), Precision<BF16>{}};
#else
  Trainer trainer{Net(), Precision<double>{}};
#endif
  trainer.step(Batch{});
}
