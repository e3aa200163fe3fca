// `NotInBackward<InBackward<Combined<AdamW, SGD>>, Combined<AdamW, SGD>>`
// `InBackward<Combined<AdamW, SGD>> holds Combined<AdamW, SGD>, and one of them`
// `InBackward updates each parameter alone` `Write it without InBackward`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, InBackward<SGD>> trainer{Net()};
#else
  Trainer<Net, InBackward<Combined<AdamW, SGD>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
