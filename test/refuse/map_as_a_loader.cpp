// `NotALoader<std::pair<` `is no batch of a loader` `each element of a loader is one batch`
// `a std::vector of maps`
#include "net.hpp"

struct TakesAnything {
  template <class Run, class Model, class Any>
  Loss operator()(Run& run, Model& model, const Any&) const;
};
using Named = std::map<std::string, torch::Tensor>;

int main() {
  Trainer<Bare, TakesAnything> trainer{Bare()};
#ifdef COUNTERPART
  return trainer.evaluate(std::vector<Named>()).count > 0;
#else
  return trainer.evaluate(Named()).count > 0;
#endif
}
