// `NoBatches<at::Tensor>` `at::Tensor is no range of batches`
// `the first argument of fit, evaluate and update_bn is a loader`
// `for a single batch, std::vector{batch}`
#include "net.hpp"

int main() {
  Trainer trainer{Net()};
#ifdef COUNTERPART
  trainer.update_bn(std::vector{Batch{}});
#else
  trainer.update_bn(torch::Tensor());
#endif
}
