// `CountBelowOne<Checkpoint<Segments<-1>>>` `must be one at least` `{.segments = n}`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Segments<>>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<Segments<-1>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
