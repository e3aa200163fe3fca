// `IgnoredFields<Weighted>` `Weighted holds more tensors than the objective takes`
// `would ignore the other tensors of this struct` `Write the objective as a lambda`
#include "net.hpp"

struct Weighted {
#ifdef COUNTERPART
  torch::Tensor input, target;
  double weight = 1;
#else
  torch::Tensor input, target, weight;
#endif
};

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
  trainer.step(Weighted{});
}
