// `ValueTwice<AdamW>` `two values were given` `Give one`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, AdamW> trainer{Net(), AdamW{.lr = 0.1}};
#else
  Trainer<Net, AdamW> trainer{Net(), AdamW{.lr = 0.1}, AdamW{.lr = 0.2}};
#endif
  trainer.step(Batch{});
}
