// `UpdatesBeforeSum<InBackward<AdamW>, Shard<DDP>>`
// `InBackward<AdamW> updates each parameter in backward, before Shard<DDP> has its gradient of all`
// `must be summed over them first` `without InBackward` `Shard<ZeRO2> or Shard<FSDP>`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/shard.hpp>
#endif

int main() {
#ifdef COUNTERPART
  Trainer<Net, AdamW, Shard<ZeRO2>> trainer{Net()};
#else
  Trainer<Net, InBackward<AdamW>, Shard<DDP>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
