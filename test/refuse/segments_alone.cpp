// `MeantAnotherPolicy<Segments<3>, Checkpoint<Segments<3>>>`
// `Segments<3> is not a policy; write Checkpoint<Segments<3>>`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Segments<3>>> trainer{Net()};
#else
  Trainer<Net, Segments<3>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
