// `TwoPoliciesOnOneAxis<axis::precision, Precision<BF16>, Precision<FP32>>` `takes one answer`
// `Keep the one you want`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Precision<BF16>, Checkpoint<Full>> trainer{Net()};
#else
  Trainer<Net, Precision<BF16>, Checkpoint<Full>, Precision<FP32>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
