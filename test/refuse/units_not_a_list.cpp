// `BadUnits<NoList, Block>` `not a list of module types` `using units = Units<Block>`
#include "net.hpp"

struct NoListImpl : BareImpl {
  using units = Block;
  template <class Run>
  Loss loss(Run& run, const Batch& batch);
};
TORCH_MODULE(NoList);

int main() {
#ifdef TWIN
  Trainer<Net> trainer{Net()};
#else
  Trainer<NoList> trainer{NoList()};
#endif
  trainer.step(Batch{});
}
