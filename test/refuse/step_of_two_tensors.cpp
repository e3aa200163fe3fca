// `BatchInParts<at::Tensor, at::Tensor>` `step was given at::Tensor, at::Tensor`
// `a step takes one batch, or one range of batches` `step(std::tuple{x, y})`
#include "net.hpp"

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
  torch::Tensor x, y;
#ifdef COUNTERPART
  trainer.step(std::tuple{x, y});
#else
  trainer.step(x, y);
#endif
}
