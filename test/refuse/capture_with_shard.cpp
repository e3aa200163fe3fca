// `ExchangesInBackward<Capture<WholeStep>, Shard<DDP>>`
// `Capture<WholeStep> replays a backward, and Shard<DDP> exchanges gradients or parameters within`
// `no other code of a backward, such as the exchanges of ranks` `Write Capture<EachUnit>`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/capture.hpp>
#include <ikebana/shard.hpp>
#endif

int main() {
#ifdef COUNTERPART
  Trainer<Net, Capture<WholeStep>, Shard<Off>> trainer{Net()};
#else
  Trainer<Net, Capture<WholeStep>, Shard<DDP>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
