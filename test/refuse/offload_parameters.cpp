// `OffloadsPart<Offload<CPU, Parameters>>`
// `Offload<CPU, Parameters> names what cannot leave the device by itself`
// `these leave together` `Write Offload<CPU> for all of them`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Offload<CPU>> trainer{Net()};
#else
  Trainer<Net, Offload<CPU, Parameters>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
