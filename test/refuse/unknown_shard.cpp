// `UnknownChoice<Shard<Full>, Shard<Off>, Shard<DDP>, Shard<ZeRO1>, Shard<ZeRO2>, Shard<FSDP>`
// `Shard<Full> does not exist; there is Shard<Off>, Shard<DDP>, Shard<ZeRO1>, Shard<ZeRO2>, Shard`
// `an argument that this version does not know` `Write one of the choices that exist`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Shard<Off>> trainer{Net()};
#else
  Trainer<Net, Shard<Full>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
