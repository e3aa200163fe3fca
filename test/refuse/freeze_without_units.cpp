// `NamesNoUnit<Freeze<torch::nn::Linear>, torch::nn::Linear, Bare>`
// `Freeze<torch::nn::Linear> names torch::nn::Linear, which is not a unit of Bare`
// `names a module that the model does not declare as a unit` `Add it to`
// `choose by a rule: Freeze<>{.match = named(`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Bare, MSELoss, Freeze<>> trainer{Bare(), Freeze<>{.match = named("linear.bias")}};
#else
  Trainer<Bare, MSELoss, Freeze<torch::nn::Linear>> trainer{Bare()};
#endif
  trainer.step(Batch{});
}
