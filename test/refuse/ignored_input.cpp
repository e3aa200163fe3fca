// `IgnoredFields<FourInputs>` `FourInputs holds more tensors than the objective takes`
// `or a struct without them`
#include "net.hpp"

struct FourInputs {
  torch::Tensor anchor, positive, negative;
#ifndef COUNTERPART
  torch::Tensor weight;
#endif
};

int main() {
  Trainer<Bare, TripletMarginLoss> trainer{Bare()};
  trainer.step(FourInputs{});
}
