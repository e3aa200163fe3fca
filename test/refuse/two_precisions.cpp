// `TwoPoliciesSet<axis::precision, Precision<BF16>, Precision<FP32>>`
// `Precision<BF16> and Precision<FP32> both set the precision; a trainer takes one`
// `a trainer takes one policy per axis` `Remove one of the two`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Precision<BF16>, Checkpoint<Full>> trainer{Net()};
#else
  Trainer<Net, Precision<BF16>, Checkpoint<Full>, Precision<FP32>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
