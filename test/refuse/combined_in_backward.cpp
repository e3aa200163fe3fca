// `NotInBackward<Combined<Muon, InBackward<SGD>>, InBackward<SGD>>`
// `Combined<Muon, InBackward<SGD>> holds InBackward<SGD>, and one of them updates in backward`
// `InBackward updates each parameter alone` `Write it without InBackward`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Combined<SGD, Combined<Muon, SGD>>> trainer{Net()};
#else
  Trainer<Net, Combined<SGD, Combined<Muon, InBackward<SGD>>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
