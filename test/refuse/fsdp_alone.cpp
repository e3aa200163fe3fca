// `MeantAnotherPolicy<FSDP, Shard<FSDP>>` `FSDP is not a policy; write Shard<FSDP>`
// `one of its types only resembles a policy` `Write that policy`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/shard.hpp>
#endif

int main() {
#ifdef COUNTERPART
  Trainer<Net, Shard<FSDP>> trainer{Net()};
#else
  Trainer<Net, FSDP> trainer{Net()};
#endif
  trainer.step(Batch{});
}
