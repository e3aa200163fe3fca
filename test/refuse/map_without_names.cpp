// `MapOfOthers<std::map<int, at::Tensor`
// `is not a map from names to tensors`
// `takes the tensors that are named input and target` `Write std::map<std::string, at::Tensor>`
#include "net.hpp"

#include <map>

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
#ifdef COUNTERPART
  trainer.step(std::map<std::string, torch::Tensor>());
#else
  trainer.step(std::map<int, torch::Tensor>());
#endif
}
