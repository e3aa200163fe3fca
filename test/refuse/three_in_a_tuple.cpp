// `MoreThanInputAndTarget<std::tuple<at::Tensor, at::Tensor, at::Tensor>>`
// `holds more than an input and a target` `would ignore the others`
// `Write a struct with fields`
#include "net.hpp"

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
#ifdef COUNTERPART
  using Fields = std::tuple<torch::Tensor, torch::Tensor>;
#else
  using Fields = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor>;
#endif
  trainer.step(Fields{});
}
