// `UnknownChoice<Quantize<BF16>, Quantize<Off>>` `does not have the first` `Write one of those`
#include "net.hpp"

int main() {
#ifdef TWIN
  Trainer<Net, Quantize<Off>> trainer{Net()};
#else
  Trainer<Net, Quantize<BF16>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
