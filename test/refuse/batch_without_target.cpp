// `NoInputOrTarget<Unlabelled>` `this objective needs a batch with` `Name the fields so`
#include "net.hpp"

struct Unlabelled {
  torch::Tensor pixels;
};

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
#ifdef TWIN
  trainer.step(Batch{});
#else
  trainer.step(Unlabelled{});
#endif
}
