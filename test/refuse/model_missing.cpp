// `ModelMissing<AdamW>` `AdamW is a policy, and stands in the place of the model`
// `a recipe begins with the model` `Write Trainer<Model, Policies...>`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<AdamW, Net> trainer{Net()};
#endif
  trainer.step(Batch{});
}
