// `TensorsOfOthers<std::tuple<at::Tensor&, at::Tensor&>>`
// `refers to tensors that it does not own` `a copy of references, spans and views`
// `Write std::tuple{x, y} instead of std::tie(x, y)`
#include "net.hpp"

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
  torch::Tensor x, y;
#ifdef COUNTERPART
  trainer.step(std::tuple{x, y});
#else
  trainer.step(std::tie(x, y));
#endif
}
