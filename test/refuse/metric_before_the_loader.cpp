// `NoBatches<Accuracy>` `Accuracy is no range of batches`
// `the first argument of fit, evaluate and update_bn is a loader` `Write fit(loader`
#include "net.hpp"

int main() {
  Trainer trainer{Net()};
  std::vector<Batch> loader;
#ifdef COUNTERPART
  trainer.evaluate(loader, Accuracy{});
#else
  trainer.evaluate(Accuracy{}, loader);
#endif
}
