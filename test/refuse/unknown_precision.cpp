// `UnknownChoice<Precision<Full>, Precision<FP32>, Precision<TF32>, Precision<BF16>,`
// `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Precision<BF16>> trainer{Net()};
#else
  Trainer<Net, Precision<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
