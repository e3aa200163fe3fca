// `UnknownCheckpoint<BF16>` `Checkpoint does not know this choice` `Checkpoint<Full>`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Checkpoint<Full>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<BF16>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
