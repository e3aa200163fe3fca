// `CountBelowOne<Checkpoint<Every<0>>>` `Checkpoint<Every<0>> has a count below 1`
// `must be 1 or more` `Write e.g. Checkpoint<Every<2>>` `{.segments = n}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Every<1>>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<Every<0>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
