// `UnknownPrecision<Full>` `Precision does not know this choice` `Precision<BF16>`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Precision<BF16>> trainer{Net()};
#else
  Trainer<Net, Precision<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
