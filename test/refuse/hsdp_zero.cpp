// `NoRanksInCopy<Shard<HSDP<0>>>` `Shard<HSDP<0>> has a number of ranks below 1`
// `the ranks that share one copy` `Write Shard<HSDP<N>> with N >= 1`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/shard.hpp>
#endif

int main() {
#ifdef COUNTERPART
  Trainer<Net, Shard<HSDP<1>>> trainer{Net()};
#else
  Trainer<Net, Shard<HSDP<0>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
