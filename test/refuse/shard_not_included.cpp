// `NotIncluded<Shard<FSDP>>` `Shard<FSDP> trains on several ranks: #include <ikebana/shard.hpp>`
// `which ikebana.hpp does not include` `Write #include <ikebana/shard.hpp>`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/shard.hpp>
#endif

int main() {
  Trainer<Net, Shard<FSDP>> trainer{Net()};
  trainer.step(Batch{});
}
