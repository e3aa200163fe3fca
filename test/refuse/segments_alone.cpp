// `MeantAnotherPolicy<Segments<3>, Checkpoint<Segments<3>>>` `Write the second instead`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Segments<3>>> trainer{Net()};
#else
  Trainer<Net, Segments<3>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
