// `NamesNoUnit<Freeze<torch::nn::Linear>, torch::nn::Linear, Bare>`
// `does not declare as a unit` `choose by a rule`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Bare, MSELoss, Freeze<>> trainer{Bare(), Freeze<>{.match = named("linear.bias")}};
#else
  Trainer<Bare, MSELoss, Freeze<torch::nn::Linear>> trainer{Bare()};
#endif
  trainer.step(Batch{});
}
