// `OneBatchOrSeveral<c10::ArrayRef<at::Tensor>>`
// `c10::ArrayRef<at::Tensor> could be one batch or several`
// `std::vector<at::Tensor> for one batch` `std::vector<std::tuple<at::Tensor>> for microbatches`
#include "net.hpp"

void train(AnyTrainer<torch::Tensor>& trainer) {
#ifdef COUNTERPART
  trainer.step(std::vector<std::tuple<torch::Tensor>>());
#else
  trainer.step(at::TensorList());
#endif
}
int main() { return 0; }
