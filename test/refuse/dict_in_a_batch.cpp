// `TensorsOutOfSight<WithDict>` `WithDict holds a c10::Dict, c10::List or IValue`
// `are not` `Write std::map<std::string, at::Tensor>`
#include "net.hpp"

struct WithDict {
  torch::Tensor input, target;
#ifdef COUNTERPART
  std::map<std::string, torch::Tensor> others;
#else
  std::vector<c10::Dict<std::string, torch::Tensor> > others;
#endif
};

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
  trainer.step(WithDict{});
}
