// `ModuleByValue<NetImpl>`
// `NetImpl is a module by value; write std::make_shared<NetImpl>()`
// `a module of LibTorch is shared by a pointer` `Net(config) for NetImpl`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, NAdam> trainer{Net()};
#else
  NetImpl net;
  Trainer<Net, NAdam> trainer{net};
#endif
  trainer.step(Batch{});
}
