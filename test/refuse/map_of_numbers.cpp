// `MapOfOthers<std::unordered_map<std::`
// `is not a map from names to tensors`
// `takes the tensors that are named input and target` `Write std::map<std::string, at::Tensor>`
#include "net.hpp"

#include <unordered_map>

int main() {
  Trainer<Bare, MSELoss> trainer{Bare()};
#ifdef COUNTERPART
  trainer.step(std::unordered_map<std::string, torch::Tensor>());
#else
  trainer.step(std::unordered_map<std::string, double>());
#endif
}
