// `ValueTwice<AdamW>` `AdamW is given twice` `two values were given for one policy` `Give one`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW> trainer{Net(), AdamW{.lr = 0.1}};
#else
  Trainer<Net, AdamW> trainer{Net(), AdamW{.lr = 0.1}, AdamW{.lr = 0.2}};
#endif
  trainer.step(Batch{});
}
