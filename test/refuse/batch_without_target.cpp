// `NoInputOrTarget<Unlabelled>` `Unlabelled has no input or no target` `needs a batch with`
// `Name the fields so`
#include "net.hpp"

struct Unlabelled {
  torch::Tensor pixels;
};

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
#ifdef COUNTERPART
  trainer.step(Batch{});
#else
  trainer.step(Unlabelled{});
#endif
}
