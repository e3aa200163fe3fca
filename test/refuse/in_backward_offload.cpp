// `UpdatesBeforeArrival<InBackward<AdamW>, Offload<CPU, OptimizerState>>`
// `and Offload<CPU, OptimizerState> moves its gradient away first`
// `gradients leave the device` `Write the optimizer without InBackward`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, InBackward<AdamW>, Offload<CPU, Activations>> trainer{Net()};
#else
  Trainer<Net, InBackward<AdamW>, Offload<CPU, OptimizerState>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
