// `NotTheModel<AdamW, Net>` `AdamW does not convert to Net` `must be its model`
// `Write Trainer<Model, Policies...>{model, values...}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net(), AdamW{.lr = 0.1}};
#else
  Trainer<Net, AdamW> trainer{AdamW{.lr = 0.1}};
#endif
  trainer.step(Batch{});
}
