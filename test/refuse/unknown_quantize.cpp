// `UnknownChoice<Quantize<BF16>, Quantize<Off>>`
// `Quantize<BF16> does not exist; there is Quantize<Off>`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Quantize<Off>> trainer{Net()};
#else
  Trainer<Net, Quantize<BF16>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
