// `NothingToPredict<NetImpl, std::pair<int, int>` `predict cannot give NetImpl std::pair<int, int>`
// `with what it is given` `a batch that the trainer is trained on, or a loader of either`
#include "net.hpp"

int main() {
  Trainer trainer{Net()};
#ifdef COUNTERPART
  trainer.predict(std::pair<torch::Tensor, torch::Tensor>());
#else
  trainer.predict(std::pair<int, int>());
#endif
}
