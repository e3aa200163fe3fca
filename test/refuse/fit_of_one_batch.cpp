// `NoBatches<Batch>` `Batch is no range of batches`
// `the first argument of fit, evaluate and update_bn is a loader`
// `for a single batch, std::vector{batch}`
#include "net.hpp"

int main() {
  Trainer trainer{Net()};
#ifdef COUNTERPART
  trainer.fit(std::vector{Batch{}}, {.epochs = 3});
#else
  trainer.fit(Batch{}, {.epochs = 3});
#endif
}
