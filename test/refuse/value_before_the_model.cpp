// `ModelMissing<NAdam>` `NAdam is a policy, and stands in the place of the model`
// `a recipe begins with the model` `Trainer{model, values...}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), NAdam{.lr = 1e-4}};
#else
  Trainer trainer{NAdam{.lr = 1e-4}, Net()};
#endif
  trainer.step(Batch{});
}
