// `NotOptions<int, Batch>` `int does not convert to FitOptions<Batch>`
// `fit takes a loader, and then its options` `Write fit(loader, {.epochs = 3`
#include "net.hpp"

int main() {
  Trainer trainer{Net()};
  std::vector<Batch> loader;
#ifdef COUNTERPART
  trainer.fit(loader, {.epochs = 3});
#else
  trainer.fit(loader, 3);
#endif
}
