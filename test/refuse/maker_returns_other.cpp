// `NotTheModel<Maker, Net>` `Maker does not convert to Net` `must be its model`
// `or a callable without arguments that returns it`
#include "net.hpp"

struct Maker {
#ifdef COUNTERPART
  Net operator()() const { return Net(); }
#else
  int operator()() const { return 5; }
#endif
};

int main() {
  Trainer<Net, AdamW> trainer{Maker(), AdamW{.lr = 0.1}};
  trainer.step(Batch{});
}
