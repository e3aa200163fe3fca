// `NoBatches<FitOptions<Batch>>` `FitOptions<Batch> is no range of batches`
// `the first argument of fit, evaluate and update_bn is a loader` `Write fit(loader`
#include "net.hpp"

int main() {
  Trainer trainer{Net()};
  std::vector<Batch> loader;
  FitOptions<Batch> options{.epochs = 3};
#ifdef COUNTERPART
  trainer.fit(loader, options);
#else
  trainer.fit(options, loader);
#endif
}
