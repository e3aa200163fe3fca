// `BatchLacksFields<TripletMarginLoss, Batch>` `Batch lacks a field that TripletMarginLoss takes`
// `TripletMarginLoss `anchor`, `positive` and `negative``
#include "net.hpp"

struct ThreeInputs {
  torch::Tensor anchor, positive, negative;
};

int main() {
  Trainer<Bare, TripletMarginLoss> trainer{Bare()};
#ifdef COUNTERPART
  trainer.step(ThreeInputs{});
#else
  trainer.step(Batch{});
#endif
}
