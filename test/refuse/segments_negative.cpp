// `CountBelowOne<Checkpoint<Segments<-1>>>` `Checkpoint<Segments<-1>> has a count below 1`
// `must be 1 or more` `Write e.g. Checkpoint<Every<2>>` `{.segments = n}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Segments<>>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<Segments<-1>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
