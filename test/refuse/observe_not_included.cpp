// `ObserveNotIncluded<Observe<Phases>>` `Observe<Phases> needs an include`
// `a policy of this recipe measures what few programs measure` `#include <ikebana/observe.hpp>`
#include "net.hpp"
#ifdef COUNTERPART
#include <ikebana/observe.hpp>
#endif

int main() {
  Trainer<Net, Observe<Phases>> trainer{Net()};
  trainer.step(Batch{});
}
