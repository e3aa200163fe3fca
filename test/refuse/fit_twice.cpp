// `TwoPoliciesSet<axis::accumulate, Accumulate<Fit<>>, Accumulate<8>>`
// `Accumulate<Fit<>> and Accumulate<8> both set the accumulate; a trainer takes one`
// `two policies of this recipe set the same axis` `Remove one of the two`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer trainer{Net(), Accumulate<Fit<>>{.max = 8}};
#else
  Trainer trainer{Net(), Accumulate<Fit<>>{.max = 8}, Accumulate<8>{}};
#endif
  trainer.step(Batch{});
}
