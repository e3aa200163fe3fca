// `BadUnits<NoList, Block>`
// `NoList declares its units with Block; they must be a list of module types`
// `must be a list of module types` `Write` `using units = Units<Block>`
#include "net.hpp"

struct NoListImpl : BareImpl {
  using units = Block;
  template <class Run>
  Loss loss(Run& run, const Batch& batch);
};
TORCH_MODULE(NoList);

int main() {
#ifdef COUNTERPART
  Trainer<Net> trainer{Net()};
#else
  Trainer<NoList> trainer{NoList()};
#endif
  trainer.step(Batch{});
}
