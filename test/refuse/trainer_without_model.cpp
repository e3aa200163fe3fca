// `TrainerWithoutModel<Trainer<Net` `is made without a model`
// `a trainer is given its model when it is made` `std::optional`
#include "net.hpp"

struct HoldsTrainer {
#ifdef COUNTERPART
  Trainer<Net> trainer{Net()};
#else
  Trainer<Net> trainer;
#endif
  HoldsTrainer() {}
};

int main() { HoldsTrainer().trainer.step(Batch{}); }
