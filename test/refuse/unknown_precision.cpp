// `UnknownChoice<Precision<Full>, Precision<FP32>, Precision<TF32>, Precision<BF16>,`
// `Precision<Full> does not exist; there is Precision<FP32>, Precision<TF32>, Precision<BF16>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Precision<BF16>> trainer{Net()};
#else
  Trainer<Net, Precision<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
