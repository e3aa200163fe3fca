// `NeedsAllGradients<InBackward<AdamW>, Accumulate<4>>` `must see all gradients before`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, InBackward<AdamW>, Accumulate<1>> trainer{Net()};
#else
  Trainer<Net, InBackward<AdamW>, Accumulate<4>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
