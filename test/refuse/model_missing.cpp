// `ModelMissing<AdamW>` `begins with the model` `Write Trainer<Model, Policies`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net()};
#else
  Trainer<AdamW, Net> trainer{Net()};
#endif
  trainer.step(Batch{});
}
