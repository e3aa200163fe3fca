// `OtherBatches<std::vector<std::pair<at::Tensor, at::Tensor>`
// `does not hold batches of type Batch` `those of the training loader by`
// `a Trainer evaluates any that its loss takes`
#include "net.hpp"

int main() {
  Trainer trainer{Net()};
  std::vector<Batch> loader;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs;
#ifdef COUNTERPART
  trainer.fit(loader, {.validate = loader});
#else
  trainer.fit(loader, {.validate = pairs});
#endif
}
