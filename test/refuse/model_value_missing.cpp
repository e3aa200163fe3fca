// `NotTheModel<AdamW, Net>` `made from its model first` `Policies...>{model, values...}`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net(), AdamW{.lr = 0.1}};
#else
  Trainer<Net, AdamW> trainer{AdamW{.lr = 0.1}};
#endif
  trainer.step(Batch{});
}
